# One verb a habit; CI calls the same ones. Needs Python 3.11 or later and make, nothing else.
PYTHON ?= python3
RUNS ?= 1000
MINUTES ?= 10
SEED ?= 0
OUT ?= out
BIN := .venv/bin

.PHONY: run paper test check fuzz bench clean

run: .venv/run  ## the paper's Figure 1: a table here, figures and a page in out/
	$(BIN)/tightrope reproduce fig1 --runs $(RUNS) --out $(OUT)

paper: .venv/run  ## every figure and claim of the paper, into out/; resumes where it was stopped
	$(BIN)/tightrope reproduce --runs $(RUNS) --out $(OUT)

test: check  ## everything: style, types, layers, tests, doctests
	$(BIN)/python -m pytest -q -n auto --dist loadgroup

check: .venv/dev  ## style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: .venv/dev  ## inputs at the edge for MINUTES from SEED; prints those that end badly
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED)

bench: .venv/dev  ## every figure of docs/benchmarks.md, beside the packages one would take instead
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv $(OUT) benchmarks/.venvs

.venv/run: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[report]"
	@touch $@

.venv/dev: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@ .venv/run
