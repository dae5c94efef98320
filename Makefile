# Everything runs in .venv, made with nothing but python3: `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CHECKED := $(wildcard substrate projections migrations tests benchmarks examples)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help .venv up down test test-system crash bench lint types format constraints clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[.a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.venv: $(VENV)/.installed  ## build or refresh the virtual environment

# The stamps, not the folder, carry the time: pip touches the folder whenever it likes.
$(VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(VENV)/.installed-base $@

# Who only wants to use it does not wait for what tests and lint need.
$(VENV)/.installed-base: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV); the first time this takes a minute or so …"
	@$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	@touch $@

up: $(VENV)/.installed-base  ## start the substrate (database, HTTP and MCP), say where and what to type next
	@$(BIN)/substrate up

down: $(VENV)/.installed-base  ## stop the server and the embedded PostgreSQL
	@$(BIN)/substrate down

test: .venv  ## run the tests, then those of the world once more on the system's PostgreSQL
	$(BIN)/python -m pytest
	@$(MAKE) --no-print-directory test-system

test-system: .venv  ## run the tests of the world on the system's PostgreSQL only
	$(BIN)/python -m tests.servers second-pass

crash: .venv  ## the long crash test: more rounds, more writers
	$(BIN)/python -m pytest tests/chaos -m long -s

bench: $(VENV)/.installed-bench  ## run every benchmark; each prints a table of ratios
	@set -e; for script in $$(grep -l __main__ benchmarks/*.py); do echo "== $$script"; $(BIN)/python $$script; done

lint: .venv  ## formatting, rules, types, layers
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	@$(MAKE) --no-print-directory types
	$(BIN)/lint-imports

types: .venv  ## types alone
	$(BIN)/mypy $(CHECKED)

format: .venv  ## rewrite the sources as lint wants them
	$(BIN)/ruff format $(CHECKED)
	$(BIN)/ruff check --fix $(CHECKED)

# Solved in an empty environment, so that what somebody once installed by hand is not written down.
constraints:  ## solve the dependencies anew and write constraints.txt
	rm -rf build/solve && $(PYTHON) -m venv build/solve
	build/solve/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[dev,bench]'
	build/solve/bin/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==' | tr 'A-Z_' 'a-z-' | LC_ALL=C sort > constraints.txt
	rm -rf build/solve

clean:  ## remove what can be made again (the data of `make up` stays)
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find $(CHECKED) -name __pycache__ -type d -prune -exec rm -rf {} +
