# Two commands set everything up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two cores: two test workers, one compute thread each.
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test check bench bench-gpu format clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml .ci/constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "moe_select needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .ci/constraints.txt hatchling
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .ci/constraints.txt --no-build-isolation -e '.[cpu,reference,triton,dev]'
	touch $(READY)

demo: $(READY)  ## build one int8 MoE layer, run it, explain the choice (no GPU needed)
	$(BIN)/moe-select demo

test: $(READY)  ## run the tests
	$(BIN)/python -m pytest -q -n $(WORKERS)

check: $(READY)  ## lint, format, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test

bench: $(READY)  ## measure the CPU kernels on this machine
	$(BIN)/python benchmarks/cpu.py

bench-gpu:  ## measure the GPU kernels beside their peers, with the python on the PATH (torch with CUDA, moe-select installed)
	$(PYTHON) benchmarks/gpu.py

format: $(READY)  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
