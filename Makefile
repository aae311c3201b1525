.DEFAULT_GOAL := help
.PHONY: help demo test test-extras test-system test-timing mutants soak audit compose check bench wheel release bundle docs lock clean

PARTIES ?= 5
PROTOCOL ?= dp-whitened
VENV := .venv
BIN := $(VENV)/bin
# Stamps of one environment. What the program needs comes first; the tests, the checks and all tools each add their part.
RUN := $(VENV)/.run
TEST := $(VENV)/.test
CHECK := $(VENV)/.check
DEV := $(VENV)/.dev
# Not compiled: what is used compiles itself.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-compile $(if $(CI),--quiet)
PACKAGES := src parties curator protocols
# The tests start hundreds of processes: without compiled files each would compile the program anew.
unexport PYTHONDONTWRITEBYTECODE
# Several processes share the machine. A library's further threads would only wait for each other.
test test-extras docs: export OPENBLAS_NUM_THREADS := 1
test test-extras docs: export OMP_NUM_THREADS := 1

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUN) ## Charlie and five parties as processes on this machine (ARGS="--parties 3 ...")
	@$(BIN)/masquerade demo $(ARGS)

test: $(TEST) ## unit, property and vector tests (ARGS="-k name")
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not alone" $(ARGS)

test-extras: $(DEV) ## tests that need optional engines, heavy libraries or a browser
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/extras $(ARGS)

test-system: $(TEST) ## real processes over real sockets; as root also in network namespaces
	$(BIN)/python -m pytest -n 3 --dist loadfile -m "not alone" tests/system tests/kills $(ARGS)

test-timing: $(TEST) ## tests that measure time or compute long, one after the other; nothing else should run meanwhile
	$(BIN)/python -m pytest -m alone tests/system tests/unit/protocols/blocks $(ARGS)

mutants: $(DEV) ## plants bugs in a copy of the program; the tests must show each (ARGS="--jobs 2 drawn")
	$(BIN)/python -m tests.mutants $(ARGS)

soak: $(TEST) ## random kills of processes, and more schedules of faults than the tests have (SOAK_SECONDS=600)
	KILL_SEED=$$(date +%s) KILL_RUNS=12 $(BIN)/python -m pytest tests/kills
	$(BIN)/python -m tests.soak $(or $(SOAK_SECONDS),600)

audit: $(RUN) ## a few minutes of attacks: claims refuted, known bugs caught, proofs not reached
	$(BIN)/masquerade audit --quick

compose: ## a container for each participant (PARTIES=5 PROTOCOL=dp-whitened CALIBRATION=proven); needs docker
	@docker/run $(PARTIES) $(PROTOCOL) $(CALIBRATION)

check: $(CHECK) ## format, lint, types, import contracts, what a run loads, protocols' names, packaging, spelling
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/unit/house/test_closure.py tests/unit/house/test_structure.py tests/unit/protocols/test_no_protocol_is_named.py
	$(BIN)/validate-pyproject pyproject.toml
	$(BIN)/codespell

bench: $(DEV) ## naive phe and ours, measured in the same run (ARGS=--short: half a minute, for a busy machine)
	$(BIN)/python -m benchmarks $(ARGS)

wheel: $(DEV) ## wheel and sdist in empty environments: lowest and newest dependencies, each Python that is there
	@BIN=$(abspath $(BIN)) .ci/wheel

release: $(DEV) ## a release in dist/, all but its upload: sdist, wheel, bill of materials, checksums
	@BIN=$(abspath $(BIN)) .ci/release

bundle: $(DEV) ## dist/masquerade-...tar.gz, with which a site installs without a network (PYTHONS="3.11 3.12" EXTRAS=parquet)
	@BIN=$(abspath $(BIN)) PYTHONS="$(PYTHONS)" EXTRAS="$(EXTRAS)" .ci/release bundle

docs: $(DEV) ## the site in build/docs, with its notebooks, doctests, links and axe; and every command that the pages show
	$(BIN)/sphinx-build -q -W --keep-going -c docs -b html -d build/doctrees . build/docs
	$(BIN)/sphinx-build -q -W -c docs -b doctest -d build/doctrees . build/doctest
	$(BIN)/python docs/axe.py
	$(BIN)/python docs/commands.py

lock: $(DEV) ## resolve the dependencies anew (UPGRADE=--upgrade for newer releases) and pin them with hashes
	@set -e; \
	resolve="$(BIN)/uv pip compile --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --no-header --quiet"; \
	$$resolve pyproject.toml --group dev --group docs --output-file requirements.txt $(UPGRADE); \
	$$resolve pyproject.toml --group build --constraints requirements.txt --output-file requirements-run.txt; \
	for part in test check; do \
	  $$resolve pyproject.toml --group build --group $$part --constraints requirements.txt --output-file requirements-$$part.txt; \
	done

clean: ## remove the environment, caches and everything built; runs/ stays
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(PACKAGES) tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Only venv and pip are asked of the machine. The environment is brought up to date in place.
$(RUN): requirements-run.txt pyproject.toml
	@set -e; \
	$(BIN)/python -c 'import pip' 2>/dev/null || { \
	  for python in python3.11 python3; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	  done; \
	  test -n "$$found" || { echo "masquerade needs Python 3.11 or later, as python3.11 or python3 on the PATH." >&2; exit 1; }; \
	  rm -rf $(VENV); \
	  echo "setting up in $(VENV) (about $$(grep -c == requirements-run.txt) packages, once)"; \
	  $$found -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; \
	}
	@$(PIP) --require-hashes -r requirements-run.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(TEST) $(CHECK): $(VENV)/.%: $(RUN) requirements-%.txt
	@echo "adding what 'make $*' needs to $(VENV) ($$(grep -c == requirements-$*.txt) packages in all)"
	@$(PIP) --require-hashes -r requirements-$*.txt
	@touch $@

$(DEV): $(RUN) requirements.txt
	@echo "adding all developers' tools to $(VENV) ($$(grep -c == requirements.txt) packages in all)"
	@$(PIP) --require-hashes -r requirements.txt
	@touch $@
