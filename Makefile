# Everything a person or a CI machine runs. Needs python3 >= 3.11 with pip and venv, and no more.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNTIME := $(VENV)/.runtime
# The compiled build has an environment of its own, so that all else goes on with the source.
COMPILED := .venv-compiled

# For every platform and Python that the project runs on, each file by its hash.
LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-config --custom-compile-command "make lock"

# Tests start the activator as a process very often: it is not to be compiled each time.
unexport PYTHONDONTWRITEBYTECODE
# Only what says so below is compiled, whatever the shell's environment asks for.
unexport ACTIVATOR_COMPILE

.PHONY: help demo test check format compile test-compiled fuzz bench dashboards queries screenshots lock image-proof clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

define ENVIRONMENT
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv $(@D) \
		|| { echo "cannot make an environment; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "installing into $(@D), once: it may take a minute or more"
endef

$(STAMP): pyproject.toml
	$(ENVIRONMENT)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(RUNTIME) $@

# Without the tools of development, which are most of what is installed and which no demo needs.
$(RUNTIME): pyproject.toml
	$(ENVIRONMENT)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

demo: $(RUNTIME)  ## Two services that scale from zero on this machine; Ctrl-C ends it
	@$(BIN)/activator demo

check: $(STAMP)  ## Format check, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check  ## The checks above, then every test
	$(BIN)/pytest -n 3 --dist worksteal $(PYTEST_ARGS)

compile: $(COMPILED)/.installed  ## Compile throttler and byte path into .venv-compiled (needs gcc, python3-dev)

$(COMPILED)/.installed: pyproject.toml setup.py $(wildcard backend/*.py) $(shell find activator throttler -name '*.py')
	$(ENVIRONMENT)
	rm -rf build
	ACTIVATOR_COMPILE=1 $(COMPILED)/bin/pip install --quiet --disable-pip-version-check '.[dev]'
	@touch $@

test-compiled: compile  ## The tests of throttler, byte path and processes on the compiled build
	$(COMPILED)/bin/python -m tests.compiled $(PYTEST_ARGS)

fuzz: compile  ## Give the same bytes to the parsers of both builds (FUZZ_ARGS='--inputs 1000000')
	$(COMPILED)/bin/python -m tests.compiled fuzz $(FUZZ_ARGS)

format: $(STAMP)  ## Put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## Speed and memory, beside nginx (Debian: apt-get install nginx-light wrk)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

dashboards: $(STAMP)  ## Write Grafana's dashboards (manifests/monitoring/dashboards)
	$(BIN)/python -m manifests.monitoring.grafana

queries: $(STAMP)  ## Ask Prometheus every query of dashboards and alerts; prints a table (Debian: prometheus)
	$(BIN)/pytest -q -s tests/monitoring/test_queries.py

screenshots: $(STAMP)  ## Take the pictures of docs/images, and say what the page costs (Debian: chromium pngquant)
	$(BIN)/python -m tests.browser.screenshots

lock: $(STAMP)  ## Choose anew which versions the image has (requirements*.lock)
	$(LOCK) --output-file requirements.lock pyproject.toml
	$(BIN)/python backend/requirements.py | $(LOCK) --output-file requirements-build.lock -

image-proof: $(STAMP)  ## Follow the Dockerfile without a container engine (root, debootstrap)
	$(BIN)/python -m tests.image.prove $(PROOF_ARGS)

clean:  ## Remove what the commands above made
	rm -rf $(VENV) $(COMPILED) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
