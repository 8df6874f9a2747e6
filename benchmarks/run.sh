#!/bin/sh
# All tables of the README, from the data folder beside the repository, printed and put into the README.
set -eu
cd "$(dirname "$0")"
: "${PYTHON:=python3}"
case "$PYTHON" in */*) PYTHON=$(cd .. && cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON") ;; esac
work=../out/bench
mkdir -p "$work"
"$PYTHON" accuracy.py --work "$work/accuracy" | tee "$work/accuracy.md"
echo
{ "$PYTHON" speed.py --work "$work/speed"; echo; "$PYTHON" encoder.py; } | tee "$work/speed.md"
"$PYTHON" fill_readme.py ../README.md "$work/accuracy.md" "$work/speed.md"
