#!/usr/bin/env bash
# KerasHub's WordPiece gives up on a word above 100 bytes, tokenizers' above 100 characters.
#
# Libraries   keras-hub 0.32.0 (tensorflow-text 2.21.1) and tokenizers 0.23.3: BERT's tokenizer, one vocabulary for
#             both.
# Behaviour   A German word of 84 letters has equal pieces. A Russian word of 57 letters (114 bytes), and 36 letters
#             of Thai (108 bytes), a script without blanks, are pieces in tokenizers and one [UNK] in KerasHub.
# A guess     The same vocabulary and rules give the same ids; both give up at the 100 characters of BERT's first
#             code.
# Why wrong   Both limits are 100, but of another unit, and KerasHub passes no argument for it. Multilingual models
#             answer other things for long words in scripts of two and three bytes a letter: a whole Thai clause is
#             one [UNK].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0 tensorflow-text==2.21.1 keras==3.15.1 keras-hub==0.32.0 \
  tokenizers==0.23.3
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt || { cat errors.txt; exit 1; }
import numpy as np
from keras_hub.models import BertTokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

for piece, times in (("internationalisierung", 4), ("интернационализация", 2), ("интернационализация", 3), ("สวัสดี", 6)):
    text = piece * times
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", piece, f"##{piece}"]
    ids = {name: place for place, name in enumerate(pieces)}
    theirs = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    theirs.normalizer = normalizers.BertNormalizer(lowercase=False)
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    print(len(text), "letters,", len(text.encode()), "bytes")
    print("  tokenizers", theirs.encode(text).ids)
    print("  KerasHub  ", np.asarray(BertTokenizer(ids)(text)).tolist())
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
84 letters, 84 bytes
  tokenizers [5, 6, 6, 6]
  KerasHub   [5, 6, 6, 6]
38 letters, 76 bytes
  tokenizers [5, 6]
  KerasHub   [5, 6]
57 letters, 114 bytes
  tokenizers [5, 6, 6]
  KerasHub   [1]
36 letters, 108 bytes
  tokenizers [5, 6, 6, 6, 6, 6]
  KerasHub   [1]
SEEN
