# One verb per habit; CI calls the same ones. Needs Python 3.11 or later and make, nothing else.
PYTHON ?= python3
RUNS ?= 1000
MINUTES ?= 10
SEED ?= 0
OUT ?= out
BIN := .venv/bin
UV := .venv-uv/bin/uv
# Tests start hundreds of processes. Without bytecode on the disk each compiles every module again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: run paper demo docs test test-lowest test-newest check fuzz lock bench release clean

run: .venv/run  ## the paper's Figure 1: a table here, figures and a page in out/
	$(BIN)/tightrope reproduce fig1 --runs $(RUNS) --out $(OUT)

paper: .venv/run  ## every figure and claim of the paper, into out/; resumes where it was stopped
	$(BIN)/tightrope reproduce --runs $(RUNS) --out $(OUT)

demo: .venv/demo  ## the service and its page with a simulated campaign; Ctrl-C ends it
	$(BIN)/tightrope demo

test: check  ## everything: style, types, layers, tests, doctests
	$(BIN)/python -m pytest -q -n auto --dist loadgroup

# Old packages call what the newest of their own dependencies deprecate.
test-lowest: .venv-lowest/dev  ## the tests on the lowest versions that pyproject.toml allows (Python 3.11)
	PYTEST_ADDOPTS="-W ignore::DeprecationWarning" \
	  .venv-lowest/bin/python -m pytest -q -n auto --dist loadgroup

test-newest: .venv-newest/dev  ## the tests on the newest versions that it allows, whatever is locked
	.venv-newest/bin/python -m pytest -q -n auto --dist loadgroup

check: .venv/dev  ## style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: .venv/dev  ## inputs at the edge for MINUTES from SEED, then requests and damaged files for as long; prints those that end badly
	$(BIN)/python -m tests.fuzz shell --minutes $(MINUTES) --seed $(SEED)
	$(BIN)/python -m tests.fuzz http --minutes $(MINUTES) --seed $(SEED)
	$(BIN)/python -m tests.fuzz files --minutes $(MINUTES) --seed $(SEED)

lock: $(UV)  ## requirements-dev.txt anew: the newest versions that pyproject.toml allows, with hashes
	$(UV) pip compile --quiet --upgrade --universal --extra dev --generate-hashes --no-emit-index-url \
	  --custom-compile-command "make lock" --output-file requirements-dev.txt pyproject.toml

docs: .venv/dev  ## the documentation as a site, into out/site; a broken link or an undocumented name fails
	$(BIN)/python docs/make_site.py --out $(OUT)/site

bench: .venv/dev  ## every figure of docs/benchmarks.md, beside the packages one would take instead
	$(BIN)/python -m benchmarks

release:  ## sdist and wheel in dist/, built, checked, installed with each extra and tried; uploads nothing
	$(PYTHON) -m tools.release

clean:
	rm -rf .venv .venv-lowest .venv-newest .venv-uv $(OUT) dist benchmarks/.venvs

.venv/run: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[report]"
	@touch $@

.venv/demo: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[serve]"
	@touch $@

.venv/dev: pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@ .venv/run .venv/demo

.venv-lowest/dev: RESOLUTION = lowest-direct
.venv-newest/dev: RESOLUTION = highest
.venv-lowest/dev .venv-newest/dev: pyproject.toml $(UV)
	$(PYTHON) -m venv --clear $(@D)
	$(UV) pip install --quiet --python $(@D) --resolution $(RESOLUTION) --editable ".[dev]"
	@touch $@

$(UV):
	$(PYTHON) -m venv .venv-uv
	.venv-uv/bin/python -m pip install --quiet uv
