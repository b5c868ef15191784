# Everything runs in .venv, made on first use. TORCH=no leaves torch out of `make explore`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PORT   ?= 8888
TORCH  ?= yes
comma  := ,

.PHONY: explore dev test soak check lint types bench clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Stamps remember which extras are installed, so that the second start is quick.
$(VENV)/lab$(TORCH).stamp: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[lab$(if $(filter no,$(TORCH)),,$(comma)live)]"
	touch $@

$(VENV)/dev.stamp: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[lab,live,dev]"
	touch $@

explore: $(VENV)/lab$(TORCH).stamp  ## open the explorer in JupyterLab
	$(BIN)/python -m jupyterlab --allow-root --port=$(PORT) notebooks/explorer.ipynb $(LAB_ARGS)

dev: $(VENV)/dev.stamp  ## everything for working on it

test: dev  ## the whole default suite
	$(BIN)/python -m pytest $(PYTEST_ARGS)

soak: dev  ## the long runs: full fuzz, differential and load
	GPUMAP_SOAK=1 $(BIN)/python -m pytest --timeout=3000 $(PYTEST_ARGS)

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

types: dev
	$(BIN)/mypy

check: lint types test  ## lint, types, tests

bench: dev  ## measure, each figure beside its budget
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis artifacts
