# Commands of this repository. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin
PYTHON ?= python3.11
MVN := mvn -B -ntp -q -f storm-plugin/pom.xml

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.installed ## make .venv with .venv/bin/stormpilot

.venv/.installed: constraints.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "stormpilot needs Python 3.11: install it, or name one with PYTHON=... make setup" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "setup: installing the pinned Python packages into .venv"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lock: setup ## write constraints.txt anew from pyproject.toml (versions and hashes only)
	$(BIN)/uv pip compile -q pyproject.toml --all-extras --generate-hashes --no-header --no-emit-index-url \
	  --no-emit-find-links --no-annotate --python-version 3.11 -o constraints.txt

.PHONY: help setup lock
