#!/usr/bin/env bash
# datasets' `class_encode_column` renumbers integer classes once there are eleven, because it sorts them as text.
#
# Library     datasets 5.2.0: a column of integers 0, 1, 2, … as labels, given to `Dataset.class_encode_column`.
# Behaviour   Ten classes keep their numbers. Of eleven, 10 becomes 2 and 2 becomes 3: names are 0, 1, 10, 2 and so
#             on. Of two splits that are encoded alone, one with ten classes and one with eleven, the label 5 is 5 and
#             6.
# A guess     Labels 0 to n - 1 are class indices already: encoding adds names and changes no number.
# Why wrong   Values become text first, and the sorted texts are the names. Probabilities of a model that was trained
#             on the plain column are then read under other names, and only where there are more than ten classes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet datasets==5.2.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/env/bin/python" - <<'PY' >seen.txt 2>errors.txt || { cat errors.txt; exit 1; }
from datasets import Dataset

for classes in (10, 11):
    plain = Dataset.from_dict({"label": list(range(classes))})
    encoded = plain.class_encode_column("label")
    print(classes, "classes:", *encoded["label"][:])
    print("  names:", *encoded.features["label"].names)
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
10 classes: 0 1 2 3 4 5 6 7 8 9
  names: 0 1 2 3 4 5 6 7 8 9
11 classes: 0 1 3 4 5 6 7 8 9 10 2
  names: 0 1 10 2 3 4 5 6 7 8 9
SEEN
