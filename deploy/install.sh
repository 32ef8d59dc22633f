#!/usr/bin/env bash
# Install what serves, and no more: deploy/install.sh PREFIX PACKAGE
#
# PREFIX is the folder of a new virtual environment; it must lie in the same place where it is used. PACKAGE is a
# wheel of this project, or its checkout. Needs python3 with pip, the package index, and strip (binutils).
set -euo pipefail
prefix=$1 package=$2
listed=$(dirname "$0")/requirements.txt
unset PYTHONPATH  # what lies there would count as installed
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_PROGRESS_BAR=off PYTHONDONTWRITEBYTECODE=1

python3 -m venv --without-pip "$prefix"
pip() { python3 -m pip --python "$prefix" "$@"; }
pip install --quiet --no-compile --no-deps --only-binary :all: --requirement "$listed"
pip install --quiet --no-compile --no-deps "$package"

# Headers, tests and stubs, which nothing imports, and symbols, which only a debugger reads: 540 MB.
packages=$("$prefix/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -r "$packages/tensorflow/include"
find "$packages" -type d -name tests -prune -exec rm -r {} +
find "$packages" \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' \) -delete
# TensorFlow's alone: NumPy's libraries no longer load when they are stripped.
find "$packages/tensorflow" -name '*.so*' -type f -exec strip --strip-unneeded {} +
# Commands of the packages, some of which need what is left out.
find "$prefix/bin" -type f ! -name 'python*' ! -name keras-selfattn -delete

# Nothing is written where it runs, so its bytecode comes with it, valid whatever times a copy gives the files.
"$prefix/bin/python" -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages"
chmod -R a+rX,a-w "$prefix"
# All that a server may load, on whatever machine this is.
"$prefix/bin/python" -c 'from keras_selfattn.serving.server.runtime.lean_tensorflow import import_runtime
import_runtime()
import keras_selfattn.serving.server.server, keras_selfattn.serving.server.tflite.tflite_servable'
"$prefix/bin/keras-selfattn" serve --version
du -sm "$prefix" | awk '{ print "installed: " $1 " MB" }'
