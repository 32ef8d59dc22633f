#!/usr/bin/env bash
# Build what a release holds, from the last commit, and check it: deploy/build.sh FOLDER
#
# FOLDER, which must be empty or new, gets the wheel and the source distribution of keras-selfattn, and the wheel
# of keras-selfattn-client. Needs python3, git, tar and the package index.
set -euo pipefail
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_PROGRESS_BAR=off
umask 022

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/source"
# Committed files alone: no leftovers of other builds, and modes that do not depend on the checkout.
git archive HEAD | tar -x --no-same-permissions -C "$place/source"
python3 -m venv "$place/tools"
"$place/tools/bin/pip" install --quiet --requirement deploy/build-requirements.txt
build() { "$place/tools/bin/python" -m build --quiet --outdir "$out" "$@"; }
build --wheel "$place/source/deploy/client"
rm -r "$place/source/deploy/client/sources" "$place/source/deploy/client/build"
build "$place/source"  # the wheel is made of the source distribution
"$place/tools/bin/twine" check --strict "$out"/*
(cd "$out" && sha256sum ./*)
