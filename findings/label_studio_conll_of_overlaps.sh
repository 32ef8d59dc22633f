#!/usr/bin/env bash
# Label Studio's converter cuts spans that overlap: its CoNLL file has entities that nobody has marked.
#
# Libraries   label-studio-sdk 2.1.2, whose `Converter.convert_to_conll2003` writes the export "CoNLL2003".
# Behaviour   Of two spans that overlap, the one that begins first keeps its tokens, whatever their order in the task.
#             The other one keeps what is left: "America offices" becomes an entity "offices", and a span within
#             another one is gone. A span that ends inside a token takes the whole token. None of it is said.
# A guess     Tokens have one label each in this format, so that an overlap is an error, or at least a warning.
# Why wrong   The converter gives each token to the first span that reaches it, and begins a new entity wherever the
#             span changes. Read from the JSON export of the same tasks, all spans are whole, and overlaps can be told.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet label-studio-sdk==2.1.2
cd "$folder"
"$folder/env/bin/python" -W always - <<'PY' >seen.txt 2>warnings.txt
import json

from label_studio_sdk.converter import Converter

TASKS = [
    ("Bank of America offices", [(0, 15, "ORG"), (8, 23, "LOC")]),
    ("Bank of America offices", [(8, 23, "LOC"), (0, 15, "ORG")]),
    ("Mary Ann Smith left", [(5, 8, "LOC"), (0, 14, "PER")]),
    ("New Yorkers left", [(0, 8, "LOC")]),
]
FORM = """<View><Labels name="label" toName="text"><Label value="LOC"/><Label value="ORG"/><Label value="PER"/></Labels>
<Text name="text" value="$text"/></View>"""


def region(start, end, label):
    value = {"start": start, "end": end, "labels": [label]}
    return {"from_name": "label", "to_name": "text", "type": "labels", "value": value}


tasks = [
    {"id": place, "data": {"text": text}, "annotations": [{"result": [region(*span) for span in spans]}]}
    for place, (text, spans) in enumerate(TASKS)
]
with open("tasks.json", "w") as file:
    json.dump(tasks, file)
Converter(FORM, ".").convert_to_conll2003("tasks.json", "out", is_dir=False)
rows = open("out/result.conll").read().split("\n", 1)[1].strip().split("\n\n")
for row in rows:
    print(*(f"{line.split()[0]}/{line.split()[-1]}" for line in row.split("\n")))
PY
cat seen.txt
if grep -iE "overlap|span|token" warnings.txt; then exit 1; fi
diff seen.txt - <<'SEEN' && echo "As found."
Bank/B-ORG of/I-ORG America/I-ORG offices/B-LOC
Bank/B-ORG of/I-ORG America/I-ORG offices/B-LOC
Mary/B-PER Ann/I-PER Smith/I-PER left/O
New/B-LOC Yorkers/I-LOC left/O
SEEN
