PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# uv installs in seconds, pip in a minute. uv uses pip's package index; if uv fails, pip takes over.
INDEX = $(or $(UV_DEFAULT_INDEX),$(PIP_INDEX_URL),$(shell $(BIN)/python -m pip config get global.index-url 2>/dev/null))
UV = UV_SYSTEM_CERTS=1 $(if $(INDEX),UV_DEFAULT_INDEX=$(INDEX)) $(shell command -v uv || echo $(BIN)/uv) \
	pip install --quiet --python $(BIN)/python -c constraints.txt

AT_LENGTH := statistical or notebook or reference

# Without source locations in compiled programs, LaRT compiles a twelfth faster.
export JAX_TRACEBACK_IN_LOCATIONS_LIMIT := 0
# Tests start hundreds of processes, which need the package's bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test slow check lint examples bench site notebooks clean

demo: $(VENV)/.demo
	$(BIN)/bayesirt rank --example --out run --overwrite

# Tests spend most of their time compiling, so they compile with fewer optimisations.
test: $(VENV)/.test
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 0)" \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not bench"

# Tests that draw long chains need some optimisation.
slow: $(VENV)/.check
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 0)" \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not bench and not ($(AT_LENGTH))"
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 1)" \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and ($(AT_LENGTH))"

check: lint examples

lint: $(VENV)/.check site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The inspect_ai extension can only be imported where inspect_ai is installed.
examples: $(VENV)/.check
	XLA_FLAGS="$$($(BIN)/python tests/quick_to_compile.py 0)" \
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -p no:cacheprovider -p exported_examples \
	--doctest-modules --doctest-glob='*.md' --ignore=bayesirt/inspect_plugin.py bayesirt README.md docs

bench: $(VENV)/.check
	$(BIN)/python -m pytest -m bench -s tests/bench

# Strict: a broken link or an undocumented public name fails the build.
site: $(VENV)/.check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Run every notebook and store its outputs, which the site shows.
notebooks: $(VENV)/.check
	$(BIN)/python tests/store_notebooks.py

clean:
	rm -rf .venv* run site .jax_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	command -v uv >/dev/null || $(PIP) uv || true

$(VENV)/.demo: WHAT = .
$(VENV)/.test: WHAT = .[test]
$(VENV)/.check: WHAT = .[slow,check,docs]
$(VENV)/.check: $(VENV)/.test
$(VENV)/.demo $(VENV)/.test $(VENV)/.check: $(VENV)/bin/python pyproject.toml constraints.txt
	$(UV) -e "$(WHAT)" 2>/dev/null || $(PIP) -e "$(WHAT)"
	@touch $@
