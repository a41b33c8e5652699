# Two commands set everything up: `make run` does the main job, `make test` passes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: run test check docs setup setup-peers setup-gpu bench clean

run: setup          ## regenerate the kernels, verify everything, write the worked example, print a summary
	$(BIN)/backprove run

test: setup         ## the whole test suite, in parallel
	$(BIN)/python -m pytest -n auto

check: setup        ## lint, format, types, freshness of generated code, all proofs read again by the checker alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/backprove generate --check
	$(BIN)/backprove prove --recheck

setup: $(READY)     ## make .venv and install everything that run, test and check need

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

setup-peers: setup  ## PyTorch (CPU) and ONNX, for comparisons with other implementations
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0' --editable '.[peers]'

setup-gpu: setup    ## CuPy with the CUDA 13.0 libraries
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[gpu]'

docs: setup         ## the pages as a site, warnings being errors
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build

bench: setup        ## interleaved medians; never part of the tests
	$(BIN)/backprove bench derive
	$(BIN)/backprove bench prove
	$(BIN)/backprove bench run

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
