#!/bin/sh
# All tables of the README, from the data folder beside the repository, printed and put into the README.
set -eu
cd "$(dirname "$0")"
: "${PYTHON:=python3}"
case "$PYTHON" in */*) PYTHON=$(cd .. && cd "$(dirname "$PYTHON")" && pwd)/$(basename "$PYTHON") ;; esac
work=../out/bench
mkdir -p "$work"
medlink() { "$PYTHON" -c 'from medlink.cli.main import main; main()' "$@"; }
table() { tee "$work/$1.md"; echo; }
"$PYTHON" accuracy.py --work "$work/accuracy" | table accuracy
{ "$PYTHON" speed.py --work "$work/speed"; echo; "$PYTHON" encoder.py; } | table speed

# Clustering: an encoder that never met the concepts of the test, then the ablation of CODER++ and the cost. Hours.
names=$work/names.tsv
"$PYTHON" open_names.py ../../shared/data/terminologies "$names"
"$PYTHON" clustering.py split "$names" "$work/training.tsv"
if [ ! -e "$work/held-out" ]; then
  medlink kb build "$work/training.sqlite" --table "$work/training.tsv"
  medlink train static "$work/training.sqlite" -o "$work/held-out" --epochs 4 --hard-epochs 2
fi
"$PYTHON" clustering.py rivals "$names" --encoder "$work/held-out" | table clustering
"$PYTHON" clustering.py known "$names" --encoder "$work/held-out" --work "$work/known" | table known
"$PYTHON" clustering.py known "$names" --encoder "$work/held-out" --work "$work/known" --all-names | table known-all
"$PYTHON" coderpp.py "$names" --work "$work/coderpp" | table coderpp
"$PYTHON" cluster_cost.py "$names" --work "$work/cost" | table cost
set -- accuracy="$work/accuracy.md" speed="$work/speed.md" coderpp="$work/coderpp.md"
# The phases of BioLORD from a small pretrained model: BASE is its folder, PRECISION bf16 on a processor that has it.
if [ -n "${BASE:-}" ]; then
  "$PYTHON" biolord.py --base "$BASE" --work "$work/biolord" --precision "${PRECISION:-auto}" | table biolord
  set -- "$@" biolord="$work/biolord.md"
fi
"$PYTHON" fill_readme.py ../README.md "$@"
