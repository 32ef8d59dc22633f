#!/usr/bin/env bash
# Of a pair of long texts tokenizers and KerasHub keep unequal halves when an odd number of pieces fits.
#
# Libraries   tokenizers 0.23.3 (`enable_truncation`, "longest_first") and keras-hub 0.32.0 (`MultiSegmentPacker`,
#             "round_robin"): each one's way to cut a pair evenly, with [CLS], [SEP], [SEP] around it.
# Behaviour   Of two texts of 200 words 128 places hold 62 words of the first and 63 of the second in tokenizers, 63
#             and 62 in KerasHub. At 127 places, an even rest, both keep 62 and 62. Of 200 and 199 words, too,
#             KerasHub keeps 63 and 62; tokenizers keeps 63 and 62 where the first is longer, and 62 and 63 where it
#             is not.
# A guess     Both take one piece after the other from the longer text, or give one to each in turn: the result is
#             equal.
# Why wrong   tokenizers cuts to halves and gives the odd place to the text that is not shorter, the second of equals;
#             KerasHub deals the places out from the first text on. So all usual lengths (128, 256, 512, less three)
#             give long pairs other ids, and segment ids that change one place later.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tensorflow==2.21.0 tensorflow-text==2.21.1 keras==3.15.1 keras-hub==0.32.0 \
  tokenizers==0.23.3
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt || { cat errors.txt; exit 1; }
import keras_hub
import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors

theirs = Tokenizer(models.WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4}, unk_token="[UNK]"))
theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
theirs.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))


def kept(ids) -> tuple[int, int]:
    return int(np.sum(np.asarray(ids) == 3)), int(np.sum(np.asarray(ids) == 4))


for places in (127, 128):
    theirs.enable_truncation(places, strategy="longest_first")
    packer = keras_hub.layers.MultiSegmentPacker(places, start_value=1, end_value=2, truncate="round_robin")
    for first, second in ((200, 200), (200, 199), (199, 200)):
        encoded = theirs.encode("a " * first, "b " * second)
        packed, _ = packer(([3] * first, [4] * second))
        print(f"{places} places, {first} and {second} words:", "tokenizers", kept(encoded.ids), "KerasHub", kept(packed))
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
127 places, 200 and 200 words: tokenizers (62, 62) KerasHub (62, 62)
127 places, 200 and 199 words: tokenizers (62, 62) KerasHub (62, 62)
127 places, 199 and 200 words: tokenizers (62, 62) KerasHub (62, 62)
128 places, 200 and 200 words: tokenizers (62, 63) KerasHub (63, 62)
128 places, 200 and 199 words: tokenizers (63, 62) KerasHub (63, 62)
128 places, 199 and 200 words: tokenizers (62, 63) KerasHub (63, 62)
SEEN
