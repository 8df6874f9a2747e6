#!/bin/sh
# All tables of the README, from the data folder beside the repository.
set -eu
cd "$(dirname "$0")"
: "${PYTHON:=python3}"
work=../out/bench
mkdir -p "$work"
"$PYTHON" accuracy.py --work "$work/accuracy"
echo
"$PYTHON" encoder.py
echo
"$PYTHON" speed.py --work "$work/speed"
