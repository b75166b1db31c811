# Gridweave: everything a developer types. `make` alone lists the targets.
# Override on the command line: PYTHON=python3.12 (makes the virtual environment), WORKERS=4 (of pytest), TESTS=tests/unit.

SHELL := bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

# The first Python that is new enough and can make a virtual environment (Debian ships that part separately).
SUITABLE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3; do $$each -c '$(SUITABLE)' 2>/dev/null && { echo $$each; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
PINS := constraints.txt
INSTALLED := $(VENV)/.installed
STEP := bash .ci/step
WORKERS ?= 2
TESTS ?= tests
SEED ?= 1
STEPS ?= 20000
JOBS ?= 50000
BATCH ?= 1000
TYPED := $(strip ports core adapters runtimes gridweave_controller sdk agent $(patsubst %,benchmarks,$(firstword $(wildcard benchmarks/*.py))) tests)

.PHONY: help venv demo test crash crash-k8s simulate simulate-long ledger-long money-long hostile-long soak check lint types walls format bench pins clean new-venv

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)$$/  make \1\t\2/' | expand -t 18

venv: $(INSTALLED) ## make .venv, with Gridweave and all that its tests need
	@echo '$(VENV) is ready'

demo: $(INSTALLED) ## start a gateway with a demo fleet, run the examples on it, print result and bill, stop all of it
	@$(STEP) 'The demo' $(BIN)/python -m runtimes.http.demo

test: $(INSTALLED) ## install what the tests need, and run them all (TESTS=tests/unit for some)
	@$(STEP) 'Tests ($(TESTS)), $(WORKERS) at a time' $(BIN)/python -m pytest $(TESTS) -m "not slow" -n $(WORKERS) --dist loadgroup

check: lint types walls ## lint, format, types and the walls between the packages (make -k check goes on after a failure)

lint: $(INSTALLED)
	@$(STEP) 'Lint' $(BIN)/ruff check .
	@$(STEP) 'Format' $(BIN)/ruff format --check .

types: $(INSTALLED)
	@$(STEP) 'Types of $(TYPED)' $(BIN)/python -m mypy --strict $(TYPED)

walls: $(INSTALLED)
	@$(STEP) 'Walls between the packages' $(BIN)/lint-imports --no-logo

format: $(INSTALLED) ## mend what ruff can mend
	@$(BIN)/ruff check --fix-only . && $(BIN)/ruff format .

crash: $(INSTALLED) ## SIGKILL the gateway at every call to a port, with jobs on their way, one call at a time (long)
	@GRIDWEAVE_CRASH_WALK=whole $(STEP) 'Crash walk' $(BIN)/python -m pytest tests/e2e/test_crash_walk.py

crash-k8s: $(INSTALLED) ## the same on Kubernetes: gateway, scheduler and biller, at every request to the API server too (long)
	@GRIDWEAVE_CRASH_WALK=whole $(STEP) 'Crash walk on Kubernetes' $(BIN)/python -m pytest tests/kube/test_walk.py

simulate: $(INSTALLED) ## a whole cluster with faults, from one seed (SEED=7 STEPS=20000); a failure is shrunk and shown step by step
	@$(STEP) 'Simulation, seed $(SEED)' $(BIN)/python -m tests.simulation --seed $(SEED) --steps $(STEPS)

simulate-long: $(INSTALLED) ## ten seeds of a million steps, WORKERS at a time (half an hour)
	@$(STEP) 'Simulation, ten seeds of a million steps' $(BIN)/python -m tests.simulation --seed 1 --seeds 10 --steps 1000000 --at-once $(WORKERS)

ledger-long: $(INSTALLED) ## ten seeds of a million random operations on the ledger (an hour or two)
	@LEDGER_STEPS=1000000 LEDGER_SEEDS=10 $(STEP) 'Ledger, ten seeds of a million operations' $(BIN)/python -m pytest -s --timeout=0 \
	    -n $(WORKERS) tests/properties/test_ledger.py -k seeded

money-long: $(INSTALLED) ## ten random histories of money of a million steps, and 10,000 ticks over a faulty wire (an hour or two)
	@$(STEP) 'Money, ten seeds of a million steps' $(BIN)/python -m tests.money.history --seeds 10 --steps 1000000
	@MONEY_TICKS=10000 $(STEP) 'Money, 10,000 ticks over a faulty wire' $(BIN)/python -m pytest tests/money/test_faulty_service.py \
	    -k change_no_total

hostile-long: $(INSTALLED) ## what takes too long for every day: a gigabyte on one line of a log, a minute of pickling, a thousand last gigabytes
	@$(STEP) 'Hostile, long' $(BIN)/python -m pytest -m slow tests/e2e/test_hostile.py tests/properties/test_fairness.py

soak: $(INSTALLED) ## 50,000 short jobs, and whether memory stays flat (JOBS=2000 BATCH=200 for a short one; the whole takes about an hour)
	@$(STEP) 'Soak, $(JOBS) jobs' $(BIN)/python -m benchmarks.soak --jobs $(JOBS) --batch $(BATCH)

bench: $(INSTALLED) ## run every benchmark but the soak
	@for each in $(filter-out soak,$(basename $(notdir $(shell grep -l __main__ benchmarks/*.py)))); do \
	    $(STEP) "Benchmark $$each" $(BIN)/python -m benchmarks.$$each || exit; done

pins: $(INSTALLED) ## write constraints.txt from what is installed in .venv
	@$(BIN)/uv pip freeze --quiet --python $(BIN)/python --exclude-editable | grep -vE '^(pip|setuptools)==' > $(PINS).new
	@mv $(PINS).new $(PINS) && touch $(INSTALLED)
	@echo "$(PINS): $$(wc -l < $(PINS)) versions"

clean: ## remove .venv and every cache
	rm -rf $(VENV) .cache .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# Made again when a list of dependencies changes, and only then.
$(INSTALLED): pyproject.toml sdk/pyproject.toml agent/pyproject.toml $(PINS)
	@$(BIN)/python -c 'import pip; $(SUITABLE)' 2>/dev/null || $(MAKE) --no-print-directory new-venv
	@$(STEP) 'The installer uv' $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(PINS) uv
	@$(STEP) 'Gridweave and its dependencies (some 120 packages; a minute the first time)' $(BIN)/uv pip install --quiet \
	    --python $(BIN)/python -c $(PINS) -e . -e sdk -e 'agent[nvidia]' --group dev
	@touch $@

new-venv:
	@$(or $(PYTHON),false) -c '$(SUITABLE)' 2>/dev/null || { \
	    echo "Gridweave needs Python 3.11 or newer with its venv module; $(or $(PYTHON),python3) here is:" \
	        "$$($(or $(PYTHON),python3) --version 2>/dev/null || echo missing)." \
	        'Install one (Debian, Ubuntu: apt-get install python3.11 python3.11-venv; macOS: brew install python@3.11),' \
	        'or name one: make venv PYTHON=/path/to/python3.11' >&2; exit 1; }
	@$(STEP) "Virtual environment $(VENV) with $$($(PYTHON) --version)" $(PYTHON) -m venv --clear $(VENV)
