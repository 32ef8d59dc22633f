"""Small files as annotation tools write them, each with the tool, its version, and how it was made."""

import json

# doccano 1.8.5, a project of sequence labelling without relations: `TupledSpanFormatter` of its
# backend/data_export/pipeline/formatters.py; from its own example.jsonl.
DOCCANO = """\
{"id": 1, "text": "EU rejects German call to boycott British lamb.", \
"label": [[0, 2, "ORG"], [11, 17, "MISC"]], "Comments": []}
{"id": 2, "text": "Peter Blackburn", "label": [[0, 15, "PERSON"]], "Comments": []}
{"id": 3, "text": "It rained.", "label": [], "Comments": ["nothing here"]}
"""
# doccano 1.8.5, a project with relations: `DictFormatter`; from its own example.jsonl of relation extraction.
DOCCANO_RELATIONS = """\
{"id": 1, "text": "Google was founded on September 4, 1998, by Larry Page and Sergey Brin.", "entities": \
[{"id": 10, "label": "ORG", "start_offset": 0, "end_offset": 6}, \
{"id": 11, "label": "DATE", "start_offset": 22, "end_offset": 39}, \
{"id": 12, "label": "PERSON", "start_offset": 44, "end_offset": 54}, \
{"id": 13, "label": "PERSON", "start_offset": 59, "end_offset": 70}], "relations": \
[{"id": 1, "from_id": 10, "to_id": 11, "type": "foundedAt"}, \
{"id": 2, "from_id": 10, "to_id": 12, "type": "foundedBy"}], "Comments": []}
"""
# Prodigy 1.11 and later, `db-out` of recipe ner.manual: the form of prodi.gy/docs/api-interfaces#ner_manual,
# with the fields that the recipe adds. The program is not public; the file was written by hand.
PRODIGY = """\
{"text": "Apple updates", "meta": {"source": "news"}, "_input_hash": 11, "_task_hash": 21, \
"tokens": [{"text": "Apple", "start": 0, "end": 5, "id": 0, "ws": true}, \
{"text": "updates", "start": 6, "end": 13, "id": 1, "ws": false}], "_view_id": "ner_manual", \
"spans": [{"start": 0, "end": 5, "token_start": 0, "token_end": 0, "label": "ORG"}], "answer": "accept", \
"_timestamp": 1700000000, "_annotator_id": "a", "_session_id": "a"}
{"text": "No one", "_input_hash": 12, "_task_hash": 22, "tokens": [], "_view_id": "ner_manual", \
"answer": "accept"}
{"text": "Wrong text", "_input_hash": 13, "_task_hash": 23, "spans": [], "answer": "reject"}
{"text": "Not sure", "_input_hash": 14, "_task_hash": 24, "spans": [], "answer": "ignore"}
"""


def _region(name, start, end, text, label):
    value = {"start": start, "end": end, "text": text, "labels": [label]}
    return {
        "id": name,
        "from_name": "label",
        "to_name": "text",
        "type": "labels",
        "origin": "manual",
        "value": value,
    }


def annotation(number, result, annotator=1, cancelled=False):
    """An annotation of a task, as in labelstud.io/guide/task_format."""
    return {
        "id": number,
        "completed_by": annotator,
        "was_cancelled": cancelled,
        "ground_truth": False,
        "lead_time": 4.2,
        "result": result,
    }


# Label Studio, its JSON export: the form of labelstud.io/guide/task_format, written by hand; offsets count
# code points (its own tests of emoji, in web/libs/editor). `label_studio_sdk` 2.1.2 reads it.
STUDIO_TASKS = [
    {
        "id": 1,
        "project": 1,
        "data": {"text": "😀 Ada Lovelace\nwrote to Babbage.", "meta_source": "a"},
        "annotations": [
            annotation(
                1001,
                [
                    _region("a1", 2, 14, "Ada Lovelace", "PER"),
                    _region("a2", 24, 31, "Babbage", "PER"),
                    {
                        "from_id": "a1",
                        "to_id": "a2",
                        "type": "relation",
                        "direction": "right",
                        "labels": ["knows"],
                    },
                ],
            )
        ],
        "predictions": [],
    },
    {"id": 2, "data": {"text": "Skipped by Bob."}, "annotations": [annotation(1002, [], cancelled=True)]},
    {
        "id": 3,
        "data": {"text": "Paris is quiet."},
        "annotations": [
            annotation(1003, [_region("b1", 0, 5, "Paris", "LOC")]),
            annotation(1004, [_region("c1", 0, 5, "Paris", "LOC")], annotator=2),
        ],
    },
    {"id": 4, "data": {"text": "Nobody came."}, "annotations": [annotation(1005, [])]},
]
STUDIO = json.dumps(STUDIO_TASKS)
# What `Converter.convert_to_json_min` of label_studio_sdk 2.1.2 made of such tasks, without times.
STUDIO_MINIMAL = """\
[{"text": "😀 Ada Lovelace\\nwrote to Babbage.", "meta_source": "a", "id": 1, "label": \
[{"start": 2, "end": 14, "text": "Ada Lovelace", "labels": ["PER"]}, \
{"start": 24, "end": 31, "text": "Babbage", "labels": ["PER"]}], "annotator": 1, "annotation_id": 1001, \
"lead_time": 4.2}, \
{"text": "Paris is quiet.", "id": 3, "label": [{"start": 0, "end": 5, "text": "Paris", "labels": ["LOC"]}], \
"annotator": 2, "annotation_id": 1004, "lead_time": 1.0}, \
{"text": "Paris is quiet.", "id": 3, "label": [{"start": 0, "end": 5, "text": "Paris", "labels": ["LOC"]}], \
"annotator": 1, "annotation_id": 1003, "lead_time": 1.0}, \
{"text": "Nobody came.", "id": 4, "annotator": 1, "annotation_id": 1005, "lead_time": 1.0}]
"""
# brat 1.3: the forms of brat.nlplab.org/standoff.html, written by hand.
BRAT_TEXT = "Sony formed a joint venture with Ericsson.\nSony announced it."
BRAT = """\
T1\tOrganization 0 4\tSony
T2\tMERGE-ORG 14 27\tjoint venture
T3\tOrganization 33 41\tEricsson
E1\tMERGE-ORG:T2 Org1:T1 Org2:T3
T4\tOrganization 43 47\tSony
*\tEquiv T1 T4
A1\tNegation E1
N1\tReference T1 Wikipedia:534366\tSony
#1\tAnnotatorNotes T1\tchecked
"""
# The first two lines are of the docstring of spaCy 3.8's spacy/training/converters/iob_to_docs.py.
WORDS = "I|O like|O London|I-GPE and|O New|B-GPE York|I-GPE City|I-GPE .|O\nIt|O is|O\n"

# Texts, spans, and the labels that spaCy 3.8.18 gave to the same tokens (`offsets_to_biluo_tags`,
# `biluo_to_iob`); None where its `Doc.char_span` found no whole tokens. Twelve of 2,957 random ones.
SPACY = [
    (
        "\tLovelace!\U0001f600\n\u2026\ud55c\uad6d\uc5b410km\u0939\u093f\u0928\u094d\u0926\u0940!_",
        [[13, 26, "LOC"], [26, 28, "LOC"]],
        "O O O O B-LOC B-LOC I-LOC",
    ),
    (
        "\u05e9\u05dc\u05d5\u05dd\u201d(\u3067\u3059\r\n\U0001f600\u2026\u03a9\u03bc\u0645\u0631\u062d\u0628\u0627a-ba-b",
        [[10, 20, "LOC"], [24, 25, "PER"]],
        "O O O O O B-LOC I-LOC I-LOC O O O B-PER",
    ),
    ("\ud55c\uad6d\uc5b4\U0001f469\u200d\U0001f692", [[0, 5, "PER"], [5, 6, "LOC"]], "B-PER I-PER B-LOC"),
    (
        "e\u0301\ud55c\uad6d\uc5b4_(\u0e20\u0e32\u0e29\u0e32Lovelace\u201d!",
        [[9, 19, "LOC"], [19, 20, "LOC"]],
        "O O O O O B-LOC I-LOC I-LOC B-LOC O",
    ),
    (
        "\u6771\u4eac\u0e20\u0e32\u0e29\u0e32\u0e20\u0e32\u0e29\u0e32\u00a010km",
        [[1, 4, "PER"], [6, 7, "PER"], [7, 10, "PER"]],
        "O B-PER I-PER I-PER O O B-PER B-PER I-PER I-PER O",
    ),
    ("\u6771\u4eaca-b(a-b_", [[7, 9, "PER"], [9, 10, "LOC"]], "O O O O O O O B-PER I-PER B-LOC"),
    (
        "\u6771\u4eac\n\u201d\ud55c\uad6d\uc5b4don't\u03a9\u03bcdon't",
        [[10, 18, "PER"], [18, 19, "PER"]],
        "O O O O B-PER I-PER I-PER B-PER",
    ),
    (
        "\ud55c\uad6d\uc5b4wrote\twrote\u201c\U0001f600\u0939\u093f\u0928\u094d\u0926\u0940Lovelace_a-b\u6771\u4eac",
        [[30, 33, "LOC"], [33, 34, "PER"]],
        "O O O O O B-LOC I-LOC I-LOC B-PER O O",
    ),
    ("wrote\u2026wrote", [[4, 11, "LOC"]], None),
    (
        "\u201d\r\n(\n\u05e9\u05dc\u05d5\u05dd\u2026wrotedon'te\u0301\u2764\ufe0fa-b_\U0001f469\u200d\U0001f692",
        [[6, 8, "PER"], [25, 27, "LOC"]],
        None,
    ),
    ("a-b\t\u201dwrote\u05e9\u05dc\u05d5\u05dd\u3067\u3059!10km", [[2, 12, "LOC"]], None),
    (
        "\u0e20\u0e32\u0e29\u0e32\u3067\u3059!\u201d\u201c\u201dAda Lovelace\u3067\u3059\u0645\u0631\u062d",
        [[6, 9, "LOC"], [23, 25, "PER"]],
        None,
    ),
]
