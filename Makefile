# Every target sets up .venv by itself. `make sample` and `make test` are all a newcomer needs.
PYTHON ?= $(shell command -v python3.12 >/dev/null 2>&1 && python3.12 -c '' 2>/dev/null && echo python3.12 || echo python3)
override BIN := .venv/bin
# of requirements.txt: what builds the few releases that have no wheel, and uv, which installs
BUILD := packaging|setuptools|setuptools-scm|uv|vcs-versioning
TORCH := torch==2.13.0
HASH := pip compile --quiet --no-deps --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q
# bytecode is made of what is imported, when it is: that of all halves the speed of the set-up. So it
# has to be kept, whatever the shell says: else each command compiles Snakemake, DVC or torch anew
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
LISTED := --require-hashes --no-deps --no-build-isolation --requirement requirements.txt
STUDY ?= sample
STUDIES = $(sort paper $(basename $(notdir $(wildcard studies/*.yaml))))
FILE = $(if $(filter paper,$(STUDY)),params.yaml,studies/$(STUDY).yaml)
IS_STUDY = test -f $(FILE) || { echo "no study '$(STUDY)', expected one of $(STUDIES)"; exit 2; }
CORES ?= 2
PAGES := '*.md' docs CITATION.cff LICENSE params.yaml 'studies/*.yaml' 'results/*' ':!src' ':!*.safetensors'
FORKS ?= $(BIN)/python workflow/forks.py
SHELL := bash

.PHONY: help named sample study report site test test-all check bench gpu commands requirements clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | column -t -s "$$(printf '\t')"

# uv makes the set-up three times as fast, but knows nothing of what pip was told of mirrors and
# proxies: where it gets nothing, pip does the same.
# Nothing is built or installed that requirements.txt has no SHA-256 of, but torch and its CUDA
# libraries: which build is wanted, for which device and from where, is the machine's to say. Python is
# below 3.13, for which floret, that a test compares with, has no wheel; the package itself runs there.
.venv/ready: pyproject.toml requirements.txt
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 13) else f"Python 3.11 or 3.12 is needed, this is {v.major}.{v.minor}: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	awk '/^[a-z]/ {wanted = /^($(BUILD))==/} wanted' requirements.txt | $(INSTALL) --require-hashes --no-deps --only-binary :all: --requirement /dev/stdin
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(LISTED) || $(INSTALL) --use-pep517 $(LISTED)
	$(INSTALL) $(TORCH)
	$(INSTALL) --no-index --no-build-isolation --editable '.[dev]'  # says what is missing; fetches nothing
	touch $@

requirements:  ## after a change of a version in requirements.txt: the SHA-256 of every file of each release
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	test -x $(BIN)/uv || $(INSTALL) uv
	grep -o '^[^ ]*==[^ ]*' requirements.txt | $(BIN)/uv $(HASH) - > .venv/hashed.txt
	mv .venv/hashed.txt requirements.txt

sample: STUDY = sample
sample: study  ## every table but the controls on a small corpus: 3 minutes on two idle cores

named:  # before anything is set up for it
	@$(IS_STUDY)

study: named .venv/ready  ## every table of studies/$(STUDY).yaml: make study STUDY=ontogum
	@STUDY_PANEL='make study STUDY=$(STUDY)' ENTITY_TRANSFORMERS_STARTERS=$$PPID PYTHONPATH="$$PWD/workflow/logger$${PYTHONPATH:+:$$PYTHONPATH}" $(FORKS) $(BIN)/snakemake --configfile $(FILE) --cores $(CORES) --logger panel
	@$(BIN)/entity-transformers show-verdicts $(FILE)
	@echo "Report: $$PWD/results/$(STUDY)/report.html"

report: named .venv/ready  ## the tables, figures and page of a study from the numbers that git holds
	$(BIN)/entity-transformers report $(FILE)

site: .venv/ready  ## the documents, and each study's README.md, as pages in site/
	$(BIN)/python -c 'import material' 2>/dev/null || $(INSTALL) --editable '.[docs]'
	rm -rf work/pages && mkdir -p work/pages
	git ls-files $(PAGES) | tar cf - -T - | tar xf - -C work/pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Site: $$PWD/site/index.html"

test: .venv/ready  ## the tests that one runs while working
	$(PYTEST) -m 'not slow'

test-all: .venv/ready  ## and the slow ones: whole studies, long trainings
	$(PYTEST) --durations 12

check: .venv/ready  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow

bench: .venv/ready  ## speed and memory against peers, as ratios, on an idle machine: benchmarks/README.md
	for file in $$(ls benchmarks/*.py | grep -v -e common.py -e table.py -e gpu.py -e resolvers.py); do echo "== $$file"; $(BIN)/python $$file || exit 1; done
	$(BIN)/python benchmarks/table.py

gpu: .venv/ready  ## all that needs a GPU: its tests and benchmarks/gpu.py
	$(BIN)/python benchmarks/gpu.py --device cuda
	$(BIN)/python benchmarks/table.py
	$(BIN)/python -m pytest -q tests/cuda

commands: .venv/ready  ## what a study has still to run, as a bash script for a machine without Snakemake
	@$(BIN)/python workflow/commands.py $(FILE)

clean:  ## remove what a study made: its data, state and logs; its results stay
	@$(IS_STUDY)
	rm -rf data/$(STUDY) logs/$(STUDY)
