#!/bin/sh
# Rebuilds the built-in encoder and the join from the open terminologies: about an hour on two idle cores.
#
#     benchmarks/builtin_encoder.sh TERMINOLOGIES
#
# Run it in an empty folder. What it writes belongs into medlink/resources: encoder/ and linking/join.json.
set -eu
here=$(dirname "$(readlink -f "$0")")

python "$here/open_names.py" "$1" names.tsv --held-out held_out.tsv --further further
medlink kb build names.sqlite --table names.tsv
medlink train names names.sqlite -o made.tsv
medlink kb build all.sqlite --table names.tsv --table made.tsv --table further/alpha.tsv --table further/oncology.tsv \
    --table further/drugs.tsv --table further/mentions.tsv
medlink kb build siblings.sqlite --table further/siblings.tsv
# without markers, whose vectors are nowhere trained; they are added to the trained weights
medlink train static all.sqlite -o run --coarse siblings.sqlite --marker-weight 0 --epochs 6 --hard-epochs 2 \
    --feature-dropout 0.3
medlink train average run -o encoder --marker-weight 0.5
python "$here/fit_join.py" --held-out held_out.tsv --work fit -o join.json
