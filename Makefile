# The lab's commands. `make help` lists them; README.md has the same for machines without make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROFILE ?= cpu
SPREAD := -n logical --maxprocesses 4 --dist loadfile

# The environment is remade when the lock or the packaging changes, and only then.
STAMP := $(VENV)/.ready-$(shell cat requirements.lock pyproject.toml | cksum | tr ' ' '-')

.DEFAULT_GOAL := help
.PHONY: help setup chapter quick book pdf lab bench verdicts llamacpp test lint notebooks lock clean

help: ## list the commands
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## make .venv from the lock

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "The lab needs Python 3.11 or newer; set PYTHON=python3.12, say." >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@rm -f $(VENV)/.ready-*
	@touch $@

chapter: $(STAMP) ## run every notebook (PROFILE=cpu) and build the book
	$(BIN)/labkit chapter --profile $(PROFILE)

quick: $(STAMP) ## the same at its smallest
	$(BIN)/labkit chapter --profile quick

book: $(STAMP) ## build the book from your last run, or from the published one
	$(BIN)/labkit book

pdf: $(STAMP) ## build the book and print it into one PDF (needs Chromium)
	$(BIN)/labkit book --pdf _build/chapter.pdf

lab: $(STAMP) ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks

bench: $(STAMP) ## measure the lab's own speed: ratios, times and sizes
	$(BIN)/python tests/bench.py --json results/bench.json

verdicts: $(STAMP) ## run options and defects of known truth through the verdict
	$(BIN)/python tests/verdicts.py

# The build that is tuned to its own machine died on another with an illegal instruction.
llamacpp: export CMAKE_ARGS ?= -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON
llamacpp: $(STAMP) ## compile llama.cpp for the second stack (C++ compiler, takes some minutes)
	$(BIN)/python -m pip install --no-deps "diskcache==5.6.3" "llama-cpp-python==0.3.36"

lint: $(STAMP) ## check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# The browser tests read a site of the published run; your own stays as it is. The notebooks share a
# run folder, so they go one after another; the tests go over the cores.
test: lint ## run every check
	$(BIN)/labkit book --run results/published-cpu --into _build/test
	$(BIN)/python -m pytest --nbval notebooks --nbval-current-env \
		--nbval-sanitize-with tests/nbval_sanitize.cfg
	$(BIN)/python -m pytest -m "not gpu and not browser" $(SPREAD)
	LABKIT_SITE=$(CURDIR)/_build/test/_build/html $(BIN)/python -m pytest -m browser $(SPREAD)

notebooks: $(STAMP) ## store the notebooks' outputs anew, with their defaults
	$(BIN)/python -c 'from labkit.chapter import store_outputs; store_outputs()'

lock: $(STAMP) ## resolve the requirements anew (UPGRADE=--upgrade for newer ones)
	$(BIN)/python .ci/lock.py $(UPGRADE)

clean: ## remove what can be made again, but no results
	rm -rf $(VENV) _build book/run .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
