# Every target makes the environment it needs; only Python 3.11 or later, make and the network are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# All processes of a test run share one cache of compiled code.
export NUMBA_CACHE_DIR := $(CURDIR)/.numba

# An environment that forbids bytecode makes every start of Python compile all sources again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo picture test long mlflow fmt lint type bench docs follow check release clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt streamk/__init__.py
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'streamk needs Python 3.11 or later; set PYTHON=python3.11')"
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --editable '.[plots,parquet,test]'
	touch $@

demo: setup
	$(BIN)/streamk demo

# The picture of README.md, by the command next to it.
picture: demo
	$(BIN)/streamk replay demo-output/bananas.csv.gz --target label --learner kernel --learner kaczmarz --report demo-output/page
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1440,2000 \
		--screenshot=docs/report-page.png file://$(CURDIR)/demo-output/page/index.html

test: setup
	$(BIN)/python -m pytest -n 4 --dist loadgroup --durations=10

long: setup
	$(BIN)/python -m pytest -m long tests
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(NUMBA_CACHE_DIR)/bounds $(BIN)/python -m pytest -n 2 tests/laws

# MLflow needs other versions of packages than constraints.txt names, so it has an environment of its own.
mlflow: setup
	$(BIN)/python -m venv $(VENV)/mlflow
	$(VENV)/mlflow/bin/python -m pip install --quiet --editable '.[mlflow,sklearn,test]' alembic
	$(VENV)/mlflow/bin/python -m pytest tests/test_mlflow.py

bench: setup
	$(BIN)/python benchmarks/run.py $(BENCH)

release: setup
	$(BIN)/python benchmarks/release.py $(RELEASE)

fmt: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

type: setup
	$(BIN)/mypy

docs: setup
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --editable '.[docs,plots,sklearn,test]'
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/sphinx-build -j auto --fail-on-warning --keep-going -q docs site
	if command -v chromium > /dev/null; then $(BIN)/python docs/check_site.py; fi
	@echo "the site: site/index.html"

follow: setup
	$(BIN)/python docs/follow_pages.py

check: lint type test

clean:
	rm -rf $(VENV) .numba dist demo-output site docs/api jupyter_execute
