#!/usr/bin/env bash
# transformers takes BERT's normaliser from tokenizer_config.json, or from defaults, not from tokenizer.json.
#
# Libraries   transformers 5.24.0 and tokenizers 0.23.3 on one folder: a cased WordPiece in tokenizer.json, and a
#             tokenizer_config.json with `"tokenizer_class": "BertTokenizer"` and no flags.
# Behaviour   `tokenizers` reads "Café" as "Café". `AutoTokenizer` reads the same folder as "cafe", without a warning:
#             `do_lower_case` has the default true, and accents go with the case. `save_pretrained` then writes the
#             other normaliser into tokenizer.json. With `"tokenizer_class": "PreTrainedTokenizerFast"` the file wins.
# A guess     tokenizer.json is the whole tokenizer, and flags that are not there change nothing in it.
# Why wrong   BERT's class sets the normaliser by its own arguments, whose defaults are lower case and no accents.
#             Servers that read the file with `tokenizers` have other ids for the same folder.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet transformers==5.24.0 tokenizers==0.23.3
cd "$folder"
"$folder/env/bin/python" - <<'PY' >seen.txt 2>warnings.txt
import json
import os

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Café", "café", "cafe"]
whole = Tokenizer(models.WordPiece({piece: place for place, piece in enumerate(pieces)}, unk_token="[UNK]"))
whole.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
whole.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
for name in ("BertTokenizer", "PreTrainedTokenizerFast"):
    os.makedirs(name)
    whole.save(f"{name}/tokenizer.json")
    special = {f"{kind}_token": f"[{kind.upper()}]" for kind in ("pad", "unk", "cls", "sep", "mask")}
    with open(f"{name}/tokenizer_config.json", "w") as file:
        json.dump({"tokenizer_class": name, **special}, file)
    with open(f"{name}/config.json", "w") as file:
        json.dump({"model_type": "bert"}, file)
    print(name)
    print("  tokenizers  ", Tokenizer.from_file(f"{name}/tokenizer.json").encode("Café").tokens)
    theirs = AutoTokenizer.from_pretrained(name)
    print("  transformers", theirs.tokenize("Café"))
    theirs.save_pretrained(f"{name}-again")
    again = Tokenizer.from_file(f"{name}-again/tokenizer.json")
    print("  tokenizers, as saved by transformers", again.encode("Café", add_special_tokens=False).tokens)
PY
cat seen.txt
if grep -iE "lower|normali" warnings.txt; then exit 1; fi
diff seen.txt - <<'SEEN' && echo "As found."
BertTokenizer
  tokenizers   ['Café']
  transformers ['cafe']
  tokenizers, as saved by transformers ['cafe']
PreTrainedTokenizerFast
  tokenizers   ['Café']
  transformers ['Café']
  tokenizers, as saved by transformers ['Café']
SEEN
