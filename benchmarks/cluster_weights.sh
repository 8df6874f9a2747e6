#!/bin/sh
# Fits anew the model by which clustering judges pairs, once the built-in encoder is in its place: some 40 minutes on two
# idle cores.
#
#     benchmarks/cluster_weights.sh TERMINOLOGIES
#
# Run it in an empty folder. What it writes belongs into medlink/resources/clustering/join.json.
set -eu
here=$(dirname "$(readlink -f "$0")")

python "$here/open_names.py" "$1" names.tsv
# half of what they are fitted on no encoder may have met
python "$here/clustering.py" split names.tsv training.tsv
medlink kb build training.sqlite --table training.tsv
medlink train static training.sqlite -o apart --epochs 4 --hard-epochs 2
python "$here/fit_clusters.py" --apart apart --met training.tsv -o join.json
