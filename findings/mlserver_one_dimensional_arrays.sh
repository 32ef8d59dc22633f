#!/usr/bin/env bash
# MLServer's NumpyCodec makes a column of every one-dimensional array: [n] comes back as [n, 1].
#
# Library     mlserver 1.7.1, `NumpyCodec` of its clients and runtimes, encode and decode in one process.
# Behaviour   An array of shape (4,) is sent as [4, 1] and decoded as (4, 1), a single number of shape () as (1,).
#             Arrays of two axes and more keep theirs. So `np.mean(decoded == sent)` is 0.375 for four labels that are
#             all equal.
# A guess     The protocol has a shape, and the codec writes the array's: decode(encode(x)) is x.
# Why wrong   The first axis is taken for a batch, and one without a second axis gets one. A model with an input of
#             [n] or a client with labels of [n] meets [n, 1]; a comparison of both broadcasts to [n, n] without a
#             word.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet mlserver==1.7.1
cd "$folder"
"$folder/env/bin/python" -W ignore - <<'PY' >seen.txt 2>errors.txt || { cat errors.txt; exit 1; }
import numpy as np
from mlserver.codecs import NumpyCodec

for array in (np.array([0, 1, 1, 2]), np.zeros((2, 3)), np.zeros((2, 3, 4)), np.array(5.0)):
    sent = NumpyCodec.encode_input("x", array)
    print(array.shape, "is sent as", sent.shape, "and decoded as", NumpyCodec.decode_input(sent).shape)
labels = np.array([0, 1, 1, 2])
answered = NumpyCodec.decode_output(NumpyCodec.encode_output("label", labels))
print("mean of equal labels:", np.mean(answered == labels))
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
(4,) is sent as [4, 1] and decoded as (4, 1)
(2, 3) is sent as [2, 3] and decoded as (2, 3)
(2, 3, 4) is sent as [2, 3, 4] and decoded as (2, 3, 4)
() is sent as [1] and decoded as (1,)
mean of equal labels: 0.375
SEEN
