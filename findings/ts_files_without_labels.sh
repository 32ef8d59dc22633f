#!/usr/bin/env bash
# A `.ts` file without labels is read by neither the library that wrote it nor by the other.
#
# Libraries   aeon 1.6.0 and sktime 1.2.0, each with its own writer and its own reader of the archives' `.ts` form.
# Behaviour   aeon ends each row in ":" where there are no labels. sktime does so for several channels, and not for
#             one. sktime's `load_from_tsfile` then reads no file without labels at all, its own included, with
#             `return_y=False`, too: three different errors of Python. aeon reads its own files, with a label "" for
#             each row, and sktime's of one channel; sktime's of several channels end in float("").
# A guess     Each library reads what it wrote, and `return_y=False` is how sktime is told that there are no labels.
# Why wrong   The last ":" is written for a label that the header denies (`@targetlabel false`, `@classLabel false`),
#             and sktime takes labels out of what it has read before it looks at `return_y`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet aeon==1.6.0 sktime==1.2.0
cd "$folder"
"$folder/env/bin/python" -W ignore - <<'PY' >seen.txt
import numpy as np
from aeon.datasets import load_from_ts_file, save_to_ts_file
from sktime.datasets import load_from_tsfile, write_panel_to_tsfile
from sktime.datatypes import convert_to

values = np.arange(24.0).reshape(2, 3, 4)  # [rows, channels, frames]
for channels in (3, 1):
    rows = values[:, :channels]
    save_to_ts_file(rows, path=".", problem_name=f"aeon{channels}")
    write_panel_to_tsfile(convert_to(rows, "nested_univ"), path=".", problem_name=f"sktime{channels}")
for file in ("aeon3.ts", "aeon1.ts", "sktime3/sktime3.ts", "sktime1/sktime1.ts"):
    last = open(file).read().splitlines()[-1]
    print(file, "ends its rows in", repr(last[-1]))
    for name, read in (
        ("aeon", lambda: load_from_ts_file(file, return_meta_data=False)[0].shape),
        ("sktime", lambda: load_from_tsfile(file, return_y=False, return_data_type="numpy3d").shape),
    ):
        try:
            print(" ", name, "reads", read())
        except Exception as error:
            print(" ", name, "raises", type(error).__name__)
PY
cat seen.txt
diff seen.txt - <<'SEEN' && echo "As found."
aeon3.ts ends its rows in ':'
  aeon reads (2, 3, 4)
  sktime raises ValueError
aeon1.ts ends its rows in ':'
  aeon reads (2, 1, 4)
  sktime raises AttributeError
sktime3/sktime3.ts ends its rows in ':'
  aeon raises ValueError
  sktime raises ValueError
sktime1/sktime1.ts ends its rows in '0'
  aeon reads (2, 1, 4)
  sktime raises ValueError
SEEN
