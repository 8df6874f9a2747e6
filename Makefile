# make demo   set up, build the demo bundle, link three notes, write a page
# make quick  set up and run the tests of every room that are not marked slow, in a minute
# make test   set up and run the tests, a process for each core; of kills and fuzzing each mechanism once
# make check  format, lint, types and tests
# make docs   build the documentation site into out/site
# make faults run the tests that make test leaves out; kill, crowd, fill and damage every writer at every point, and write the table of docs/explanation/reliability.md
# make bench-scale  what the index costs as a terminology grows to ten million names (docs/explanation/scale.md); two hours, 60 GB
# make bench  accuracy and speed tables (needs the data folder beside the repository)
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# where it is set, each of the hundreds of processes of the tests compiles medlink anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quick test lint check docs faults bench bench-scale clean

demo: $(VENV)/ready
	$(BIN)/medlink demo -o out/demo

quick: $(VENV)/ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not faults and not browser and not gpu" tests

test: $(VENV)/ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder -m "not faults"

lint: $(VENV)/ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

docs: $(VENV)/ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

faults: $(VENV)/ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m faults --ignore tests/faults
	mkdir -p out/bench
	$(BIN)/python benchmarks/faults.py --points full > out/bench/faults.out; code=$$?; cat out/bench/faults.out; exit $$code
	$(BIN)/python benchmarks/reports.py write faults --command "python benchmarks/faults.py --points full" \
	  < out/bench/faults.out
	$(BIN)/python benchmarks/reports.py fill

bench: $(VENV)/ready-dev
	PYTHON=$(BIN)/python sh benchmarks/run.sh

bench-scale: $(VENV)/ready-dev
	PYTHON=$(BIN)/python REPORTS=scale sh benchmarks/run.sh

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "medlink needs Python 3.11 or newer; name one with: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# pip compiles on one core, and what nobody imports; a few files of libraries are no valid Python
INSTALL = $(BIN)/python -m pip install -q --no-compile -c constraints.txt -e
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x '/_?test(s|ing)?/|/transformers/models/' $(VENV)/lib || true

$(VENV)/ready: $(VENV)/bin/python setup.cfg constraints.txt
	@echo "pip installs medlink into $(VENV) without a word, which takes some minutes"
	$(INSTALL) ".[cpu]"
	$(COMPILE)
	touch $@

$(VENV)/ready-dev: $(VENV)/bin/python setup.cfg constraints.txt
	@echo "pip installs medlink and what its tests need into $(VENV) without a word, which takes some minutes"
	$(INSTALL) ".[cpu,dev]"
	$(COMPILE)
	touch $(VENV)/ready $@

$(VENV)/ready-docs: $(VENV)/ready
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[cpu,docs]"
	touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info
