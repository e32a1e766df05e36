PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test slow check bench clean

demo: .venv/.demo
	$(BIN)/bayesirt rank --example --out run --overwrite

# Tests spend most of their time compiling, which is quicker where less is optimised.
test: .venv/.test
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 0)" \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not bench"

slow: .venv/.test
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 1)" \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not bench"

check: .venv/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -p no:cacheprovider --doctest-modules --doctest-glob=README.md bayesirt README.md

bench: .venv/.test
	$(BIN)/python -m pytest -m bench -s tests/bench

clean:
	rm -rf .venv run .jax_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.demo: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

.venv/.test: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e ".[test,example]"
	@touch $@

.venv/.check: .venv/.test
	$(PIP) -e ".[check]"
	@touch $@
