# Each target makes or reuses .venv in this checkout and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
SHELL := /bin/bash
# One more than there are cores: some tests wait for servers and disks.
TESTERS = $(shell $(BIN)/python -c "import os; print(min(8, 1 + (os.cpu_count() or 1)))")

.PHONY: demo test lint format docs clean

demo: .venv/runnable
	$(BIN)/evenreel demo

test: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(TESTERS) --dist loadfile

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

# What running needs, and nothing that only developers use.
.venv/runnable: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[measure]"
	touch $@

# The same with the tools of tests and checks.
.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch .venv/runnable $@

clean:
	rm -rf .venv demo build dist src/*.egg-info
