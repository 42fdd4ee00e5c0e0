# The two commands that matter: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LOCK := locks/requirements.lock
SOURCES := pyproject.toml $(LOCK)
# COVERAGE=1 make test also measures which lines and branches the tests reach, and holds the floor
# of pyproject.toml (fail_under).
ifdef COVERAGE
MEASURED := -m coverage run
endif
# Some tests wait (for browsers, for other processes): on two cores, three workers took 15 minutes, two took 18.
WORKERS ?= 3
PYTEST := -m pytest -n $(WORKERS) --dist worksteal
# Test modules are compiled once, not in every run of each process (13 s for each).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-install check bench chaos recordings lock clean

help: ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(SOURCES) | $(BIN)/python
	$(PIP) install --constraint $(LOCK) --editable '.[report]'
	@touch $@

$(VENV)/.all: $(VENV)/.base
	$(PIP) install --constraint $(LOCK) --editable '.[report,parquet,postgres,openvino,concepts,clinical,ray,observe,server,test,dev,bench]'
	@touch $@

setup: $(VENV)/.all ## make .venv with every extra

demo: $(VENV)/.base ## run the whole gate on bundled synthetic data
	$(BIN)/gatemark demo

test: $(VENV)/.all ## run every test but those of test-install
	$(BIN)/python -m compileall -q src
	$(BIN)/python tests/install_browser.py
ifdef COVERAGE
	$(BIN)/python -m coverage erase
endif
	$(BIN)/python $(MEASURED) $(PYTEST) --ignore tests/install
ifdef COVERAGE
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report
endif

test-install: $(VENV)/.all ## build the wheel and use it in new environments of each supported Python
	$(BIN)/python $(PYTEST) tests/install

check: $(VENV)/.all ## format, lint, types, import contracts, docs
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/ruff check src tests bench tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/check_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(VENV)/.all ## measure speed and memory as ratios in one run
	$(BIN)/python -m bench

chaos: $(VENV)/.all ## kill writers, damage files, set off bombs; an hour (CHAOS=--short: a minute)
	$(BIN)/python -m tests.chaos $(CHAOS)

recordings: $(VENV)/.all ## accept what commands print, write and end with now; say why in the commit
	$(BIN)/python -m tests.recordings.walk
	GATEMARK_ACCEPT_RECORDINGS=1 $(BIN)/python $(PYTEST) tests/docs/test_console.py

lock: ## resolve every extra anew and write names, versions and hashes
	$(PYTHON) locks/update.py
	$(PYTHON) tools/lock_hashes.py

clean: ## remove what make made
	rm -rf $(VENV) build dist
