#!/usr/bin/env bash
# tokenizers reads some scores of the file that it wrote one unit off, so a saved tokenizer can have other ids.
#
# Library     tokenizers 0.23.3 (`models.Unigram`), in memory, and again after `to_str` and `from_str`, whose text is
#             what `save` and `from_file` write and read.
# Behaviour   The file holds the scores in full: Python's json has them back. tokenizers reads -8.500349149344583 as it
#             is, and -9.500349149344583 as -9.500349149344585. "a" and "b" had the same sum as "ab", which was taken;
#             now they have the greater one, and the text "ab" becomes two pieces.
# A guess     A tokenizer saved and loaded again gives the same ids: the digits in the file stand for one float64 alone.
# Why wrong   The file is read by Rust's serde_json without its feature `float_roundtrip`: all digits as one integer,
#             made a float64 and divided by a power of ten. Beyond 2 ** 53 that rounds twice. Equal sums are usual in
#             such a model, and the last bit then decides. In transformers `PreTrainedTokenizerFast` has the scores so,
#             and `XLMRobertaTokenizer`, which reads the same file in Python, has those of the file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet tokenizers==0.23.3
cd "$folder"
"$folder/env/bin/python" - <<'PY' >seen.txt
import json

from tokenizers import Tokenizer, models

vocabulary = [("<unk>", 0.0), ("a", -8.500349149344583), ("b", -1.0), ("ab", -9.500349149344583)]
made = Tokenizer(models.Unigram(vocabulary, unk_id=0))
loaded = Tokenizer.from_str(made.to_str())
for name, each in (("made", made), ("loaded", loaded)):
    scores = dict(json.loads(each.to_str())["model"]["vocab"])
    print(f"{name:6} {each.encode('ab').tokens}, scores of 'a' {scores['a']!r} and 'ab' {scores['ab']!r}")
for digits in (8500349149344583, 9500349149344583):
    print(f"{digits} has {digits.bit_length()} bits; by 10 ** 15 as a float64: {float(digits) / 1e15!r}")
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
made   ['ab'], scores of 'a' -8.500349149344583 and 'ab' -9.500349149344583
loaded ['a', 'b'], scores of 'a' -8.500349149344583 and 'ab' -9.500349149344585
8500349149344583 has 53 bits; by 10 ** 15 as a float64: 8.500349149344583
9500349149344583 has 54 bits; by 10 ** 15 as a float64: 9.500349149344585
SEEN
