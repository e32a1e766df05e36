PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# uv takes seconds where pip takes a minute. It is told where pip looks; where it cannot install, pip does.
INDEX = $(or $(UV_DEFAULT_INDEX),$(PIP_INDEX_URL),$(shell $(BIN)/python -m pip config get global.index-url 2>/dev/null))
UV = UV_SYSTEM_CERTS=1 $(if $(INDEX),UV_DEFAULT_INDEX=$(INDEX)) $(shell command -v uv || echo $(BIN)/uv) \
	pip install --quiet --python $(BIN)/python -c constraints.txt

AT_LENGTH := statistical or notebook or reference

# Of each line of a program JAX tells the compiler where it stands: a twelfth of the time of compiling LaRT.
export JAX_TRACEBACK_IN_LOCATIONS_LIMIT := 0

.PHONY: demo test slow check bench site notebooks clean

demo: .venv/.demo
	$(BIN)/bayesirt rank --example --out run --overwrite

# Tests spend most of their time compiling, which is quicker where less is optimised.
test: .venv/.test
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 0)" \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not bench"

# Of the slow ones, those that sample at length are quicker where a little is optimised. Geweke's have
# processes of their own: one that had run for long was once seen to stand still inside XLA.
slow: .venv/.check
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 0)" \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not bench and not ($(AT_LENGTH))"
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 1)" \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and ($(AT_LENGTH))" -k "not geweke"
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 1)" \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow -k geweke tests/statistical

# The extension of inspect_ai can only be imported where inspect_ai is installed.
check: .venv/.check site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 0)" \
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -p no:cacheprovider -p exported_examples \
	--doctest-modules --doctest-glob='*.md' --ignore=bayesirt/inspect_plugin.py bayesirt README.md docs

bench: .venv/.check
	$(BIN)/python -m pytest -m bench -s tests/bench

# Strict: a link that leads nowhere, or a name without a page, fails.
site: .venv/.check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Runs every notebook and keeps its outputs, which the site shows.
notebooks: .venv/.check
	$(BIN)/python tests/store_notebooks.py

clean:
	rm -rf .venv run site .jax_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv
	command -v uv >/dev/null || $(PIP) uv || true

.venv/.demo: WHAT = .
.venv/.test: WHAT = .[test]
.venv/.check: WHAT = .[slow,check,docs]
.venv/.check: .venv/.test
.venv/.demo .venv/.test .venv/.check: .venv/bin/python pyproject.toml constraints.txt
	$(UV) -e "$(WHAT)" 2>/dev/null || $(PIP) -e "$(WHAT)"
	@touch $@
