#!/bin/sh
# Rebuilds the built-in encoder and the join from the open terminologies: about an hour and a half on two cores.
#
#     benchmarks/builtin_encoder.sh TERMINOLOGIES
#
# Run it in an empty folder. What it writes belongs into medlink/resources: encoder/ and linking/join.json.
set -eu
here=$(dirname "$(readlink -f "$0")")

python "$here/open_names.py" "$1" names.tsv --held-out held_out.tsv
medlink kb build names.sqlite --table names.tsv
# four runs without markers, whose vectors are nowhere trained, then the mean of their weights with markers
medlink train static names.sqlite -o one --marker-weight 0 --epochs 8 --hard-epochs 3 --feature-dropout 0.1 --language-boost 1
medlink train static names.sqlite -o two --marker-weight 0 --epochs 16 --hard-epochs 5 --feature-dropout 0.1 --language-boost 4
medlink train static names.sqlite -o three --marker-weight 0 --epochs 8 --hard-epochs 3 --feature-dropout 0.3 --language-boost 2
medlink train static names.sqlite -o four --marker-weight 0 --epochs 11 --hard-epochs 3 --feature-dropout 0.35 --language-boost 4
medlink train average one two three four -o encoder --marker-weight 0.5
python "$here/fit_join.py" --held-out held_out.tsv --work fit -o join.json
