# Each target makes the .venv and what it needs by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install demo jaeger demo-jaeger test lint acceptance providers bench simulate clean

help: ## What there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(INSTALLED): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

install: $(INSTALLED) ## Install trihop and all that develops it into .venv

demo: $(INSTALLED) ## A whole triangle against a real job server, and its trace
	@$(BIN)/trihop demo

jaeger: $(INSTALLED) ## Build Jaeger from its source, once; needs Go, and some ten minutes
	@PYTHONPATH=tests $(BIN)/python -m acceptance.demo_jaeger build

demo-jaeger: $(INSTALLED) ## The demo in a real Jaeger; KEEP=1 leaves it up
	@PYTHONPATH=tests $(BIN)/python -m acceptance.demo_jaeger

lint: $(INSTALLED) ## Style and types
	$(BIN)/ruff check src tests examples
	$(BIN)/ruff format --check src tests examples
	$(BIN)/mypy
	$(BIN)/mypy examples tests/typing

# Many tests race real sockets against real deadlines, and a machine can be late: what failed has to fail again by itself.
test: lint ## The tests
	$(BIN)/pytest || { test $$? -eq 1 && $(BIN)/pytest --last-failed --last-failed-no-failures=none; }

acceptance: $(INSTALLED) ## The built wheel, in fresh environments, on the oldest and newest we support
	$(BIN)/python -m tests.acceptance

providers: $(INSTALLED) ## Make the table in docs/providers.md from the providers
	$(BIN)/python -m tests.docs_tables

bench: $(INSTALLED) ## Ratios against the hand-written loop, in one run
	$(BIN)/python -m tests.bench

simulate: $(INSTALLED) ## A hundred thousand jobs on a virtual clock, and what ten million would take (docs/scale.md)
	@PYTHONPATH=tests $(BIN)/python -m simulate $(ARGUMENTS)

clean: ## Remove what was made
	rm -rf $(VENV) .venv-* dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
