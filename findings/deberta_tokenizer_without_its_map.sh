#!/usr/bin/env bash
# transformers 5 reads DeBERTa's spm.model without the map of characters that is in it.
#
# Libraries   transformers 5.24.0 (`DebertaV2Tokenizer`, by AutoTokenizer) and sentencepiece 0.2.3, on one model of
#             SentencePiece with its default map, "nmt_nfkc". A folder with `spm.model` and no `tokenizer.json` is how
#             the models of DeBERTa-v2 and v3 were published.
# Behaviour   Fullwidth letters, the ligature "ﬁ" and "²" stay as they are in transformers and become unknown pieces; in
#             SentencePiece they become letters and a digit that are pieces. Other texts have the same pieces.
# A guess     The tokenizer is made of spm.model, so it normalises texts as that file says, as for XLM-RoBERTa.
# Why wrong   The class of version 5 takes pieces and scores from the file, and builds a normalizer of its own: white
#             space to one blank, Unicode's form C, no blanks at the end. Its argument for the map has no effect. The
#             converter of slow tokenizers in the same release, as version 4 used it, keeps the map.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet transformers==5.24.0 sentencepiece==0.2.3 protobuf tiktoken
cd "$folder"
"$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt
import json
import pathlib

import sentencepiece
from transformers import AutoTokenizer

texts = ["a good film", "a bad film", "the good films 2", "fine films"]
special = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
places = {f"{name}_id": place for place, name in enumerate(special)}
pathlib.Path("model").mkdir()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(texts),
    model_prefix="model/spm",
    vocab_size=23,
    **{f"{name}_piece": piece for name, piece in special.items()},
    **places,
    minloglevel=2,
)
pathlib.Path("model/config.json").write_text(json.dumps({"model_type": "deberta-v2", "vocab_size": 24}))
pathlib.Path("model/tokenizer_config.json").write_text(json.dumps({"vocab_type": "spm"}))
theirs = AutoTokenizer.from_pretrained("model")
own = sentencepiece.SentencePieceProcessor("model/spm.model")
for text in ("good film", "\uff47\uff4f\uff4f\uff44", "\ufb01ne", "\u00b2"):
    ids = theirs(text, add_special_tokens=False)["input_ids"]
    unknown = {"transformers": ids.count(3), "sentencepiece": own.encode(text).count(3)}
    print(f"{ascii(text):28} unknown pieces: {unknown}, the same ids: {ids == own.encode(text)}")
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
'good film'                  unknown pieces: {'transformers': 0, 'sentencepiece': 0}, the same ids: True
'\uff47\uff4f\uff4f\uff44'   unknown pieces: {'transformers': 1, 'sentencepiece': 0}, the same ids: False
'\ufb01ne'                   unknown pieces: {'transformers': 1, 'sentencepiece': 0}, the same ids: False
'\xb2'                       unknown pieces: {'transformers': 1, 'sentencepiece': 0}, the same ids: False
SEEN
