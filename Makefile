# The index of what can be done here; `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Small steps on small models: one thread per process, one process per core.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help run test test-e2e browser check fmt lint types tests paper-synthetic bench-coreset study \
        study-moving study-stragglers study-deadlines study-choosing bench-simulator bench-rounds \
        bench-peers bench-lab-peers bench-growth methods \
        results tutorial docs clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once; a minute or two) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedcore needs Python 3.11 or newer; try make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: $(READY) ## compare FedCore and Tempo with three baselines on Synthetic(1, 1); tables and plots
	@$(BIN)/fedcore compare --benchmark synthetic-1-1 --stragglers 30 --rounds 100 --seed 0,1,2,3,4 \
	  --out runs/synthetic-1-1 --overwrite

test: check ## format, lint, types, tests

check: lint types tests

lint: $(READY) ## format check and lint
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: $(READY) ## mypy --strict
	@$(BIN)/mypy

tests: $(READY) ## the tests, on two processes
	@$(BIN)/python -m pytest -q -n 2 --timeout 300

test-e2e: $(READY) ## the deployment over real processes (minutes)
	@$(BIN)/python -m pytest -q -m e2e --timeout 240 tests/e2e

browser: ## Debian's Chromium, and axe by npm, for the tests of report.html (as root)
	@command -v chromium >/dev/null || { timeout 60 apt-get update -qq && timeout 180 apt-get install -y -qq --no-install-recommends chromium; } >/dev/null
	@timeout 60 npm install --silent --no-audit --no-fund --prefix .axe axe-core@4.14.0 >/dev/null

fmt: $(READY) ## format and sort imports
	@$(BIN)/ruff check --fix --quiet .; $(BIN)/ruff format --quiet .

# A folder that holds mnist/ and shakespeare/, where these are not found anyway
DATA ?=
paper-synthetic: $(READY) ## the Synthetic half of the paper's Table 2 (a quarter of an hour)
	@$(BIN)/python -m benchmarks.paper.synthetic

bench-coreset: $(READY) ## the k-medoids solver against the public one (ten minutes)
	@$(BIN)/python -m benchmarks.coreset $(if $(DATA),--data $(DATA))

study: $(READY) ## selector x weighting x budget, on Synthetic and a CNN (ten minutes)
	@$(BIN)/python -m benchmarks.selectors

study-moving: $(READY) ## free gradients of the first epoch against an exact pass (minutes)
	@$(BIN)/python -m benchmarks.selectors.moving

study-stragglers: $(READY) ## every method on one clock, at its best step size; docs/stragglers.md (40 minutes)
	@$(BIN)/python -m benchmarks.stragglers
	@$(BIN)/python -m benchmarks.stragglers.cost
	@$(BIN)/python -m benchmarks.stragglers.race
	@$(BIN)/python -m benchmarks.stragglers.page

study-choosing: $(READY) ## does choosing samples beat drawing them, at equal time? docs/choosing.md (hours of one core)
	@$(BIN)/python -m benchmarks.choosing --part synthetic
	@$(BIN)/python -m benchmarks.choosing --part better
	@$(BIN)/python -m benchmarks.choosing.steps --part synthetic
	@$(BIN)/python -m benchmarks.choosing.page

study-deadlines: $(READY) ## fixed deadlines and those that find themselves; docs/deadlines.md (40 minutes)
	@$(BIN)/python -m benchmarks.deadlines
	@$(BIN)/python -m benchmarks.deadlines.page

DEVICE ?= cpu
bench-simulator: $(READY) ## client-steps per second against the plain loop (minutes)
	@$(BIN)/python -m benchmarks.simulator --device $(DEVICE)

bench-rounds: $(READY) ## where the time of whole FedCore rounds goes (minutes; needs the data)
	@$(BIN)/python -m benchmarks.simulator.rounds --device $(DEVICE) $(if $(DATA),--data-dir $(DATA))

bench-peers: $(READY) ## ours against the plain loop, Flower and pfl on the same work (10 to 15 minutes)
	@$(BIN)/python -m benchmarks.peers $(if $(DATA),--data-dir $(DATA))

bench-lab-peers: $(READY) ## FedAvg and FedBuff beside appfl, flgo and flsim, each on its own clock (20 minutes)
	@$(BIN)/python -m benchmarks.lab_peers

bench-growth: $(READY) ## time and memory against cohort and fleet, up to 100,000 clients (minutes)
	@$(BIN)/python -m benchmarks.simulator.growth

methods: $(READY) ## write docs/methods.md from the files of strategies and samplers
	@$(BIN)/python -m benchmarks.methods_page

results: $(READY) ## write docs/results.md and the tables of README, speed and deployment from benchmarks/results
	@$(BIN)/python -m benchmarks.tables

tutorial: $(READY) ## run examples/tutorial.ipynb and keep what its cells print
	@$(BIN)/python docs/site/notebook.py examples/tutorial.ipynb

# The extra alone, in an environment of its own: it reads the source and imports none of it.
DOCS := .venv-docs
$(DOCS)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; print(*extras['docs'], sep='\n')" > $(DOCS)/wanted
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r $(DOCS)/wanted
	@touch $@

docs: $(DOCS)/.ready ## the pages and the API from docstrings, as a site in site/; a warning is an error
	@$(DOCS)/bin/mkdocs build --strict  # with --quiet, mkdocs would count no warnings
	@echo "open site/index.html"

clean: ## remove the environment and every cache
	@rm -rf $(VENV) $(DOCS) site .peers .axe .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist src/*.egg-info
