#!/usr/bin/env bash
# seqeval's default mode loses or joins spans of BILOU labels; its warning does not say so.
#
# Library     seqeval 1.2.2, `metrics.f1_score` and `get_entities` without `mode` and `scheme`.
# Behaviour   Of two spans B-PER L-PER B-PER L-PER the second is found alone; U-PER U-PER, two spans of one token each,
#             are one; B-PER L-PER U-PER, two spans, are one. So labels that miss one of three spans have an F1 of 0.5
#             where `mode="strict", scheme=BILOU` has 0.8. The warning says "L-PER seems not to be NE tag" and no more;
#             the same labels with E and S for L and U are read without one, and rightly.
# A guess     L and U are taken for E and S, or what the warning names is left out of the figures.
# Why wrong   The default mode is conlleval's rule. It compares marks with B, E, I, S and O alone: an unknown one
#             continues a span, but does not end it, and a B after it moves where the span is thought to begin.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet seqeval==1.2.2
cd "$folder"
"$folder/env/bin/python" - <<'PY' >seen.txt
import warnings

from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU

for marks in ("B L B L", "U U", "B L U"):
    for written in (marks, marks.replace("L", "E").replace("U", "S")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = get_entities([f"{mark}-PER" for mark in written.split()])
        print(written, found, len(caught), "warnings")
warnings.simplefilter("ignore")
true, found = [["U-PER", "U-PER", "O", "U-LOC"]], [["U-PER", "O", "O", "U-LOC"]]
print(round(f1_score(true, found), 3), round(f1_score(true, found, mode="strict", scheme=BILOU), 3))
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
B L B L [('PER', 2, 3)] 2 warnings
B E B E [('PER', 0, 1), ('PER', 2, 3)] 0 warnings
U U [('PER', 0, 1)] 2 warnings
S S [('PER', 0, 0), ('PER', 1, 1)] 0 warnings
B L U [('PER', 0, 2)] 2 warnings
B E S [('PER', 0, 1), ('PER', 2, 2)] 0 warnings
0.5 0.8
SEEN
