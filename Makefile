# Each target makes or reuses .venv in this checkout and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
SHELL := /bin/bash
# One more than there are cores: some tests wait for servers and disks.
TESTERS = $(shell $(BIN)/python -c "import os; print(min(8, 1 + (os.cpu_count() or 1)))")

# Tests write thousands of libraries and wait for the disk at each: they lie in memory where 6 GB of that is free.
SCRATCH = $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 6000000 ] 2>/dev/null \
	&& echo /dev/shm || echo "$${TMPDIR:-/tmp}")

# Bytecode is kept, also where the environment says not to: each of several processes imports all tests.
PYTEST = TMPDIR=$(SCRATCH) PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all lint format docs openapi client clean

demo: .venv/runnable
	$(BIN)/evenreel demo

test: .venv/installed .venv/generator
	$(PYTEST)

# With the slow ones, and ten times the examples of each property.
test-all: .venv/installed .venv/generator
	$(PYTEST) --all

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site of the documents, at http://127.0.0.1:8000/.
docs: .venv/installed
	$(BIN)/mkdocs serve

# The description of the REST API that is checked in, anew.
openapi: .venv/installed
	$(BIN)/python -m scripts.openapi_file

# A Python client of the REST API, in build/client.
client: .venv/generator
	$(BIN)/python -m scripts.python_client build/client

# What running needs, and nothing that only developers use.
.venv/runnable: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[measure,meaning]"
	touch $@

# The same with the tools of tests and checks.
.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch .venv/runnable $@

# What generates the client, in an environment of its own; it needs Python 3.11.
.venv/generator: scripts/python_client/requirements.txt | .venv/installed
	if $(BIN)/python -c "import sys; sys.exit(sys.version_info < (3, 11))"; then \
		$(BIN)/python -m venv .venv/client && .venv/client/bin/python -m pip install --quiet -r $<; fi
	touch $@

clean:
	rm -rf .venv demo build dist src/*.egg-info
