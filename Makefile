# All commands of people and CI. They need only python3 >= 3.11 with pip and venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNTIME := $(VENV)/.runtime
# The compiled build has its own environment; all other commands use the source.
COMPILED := .venv-compiled
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' activator/__init__.py)
# The image in the manifests that `make install-yaml` writes; no registry has it.
IMAGE ?= registry.example.com/activator:$(VERSION)

# Of `make soak`: seconds of traffic, and the number that decides the faults; empty for a new one.
SECONDS := 1800
SEED :=

# Locks hold for all supported platforms and Python versions, and have the hash of each file.
LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-config --custom-compile-command "make lock"

# Tests start many activator processes: without this, each would compile all modules to bytecode.
unexport PYTHONDONTWRITEBYTECODE
# Only the targets below compile, even if the shell sets this variable.
unexport ACTIVATOR_COMPILE

.PHONY: help demo test check format compile test-compiled test-cluster fuzz bench bench-compiled soak dashboards policy queries screenshots lock \
	image-proof dist sbom install-yaml chart clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

define ENVIRONMENT
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv $(@D) \
		|| { echo "cannot make an environment; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "installing into $(@D), once; this may take a minute or more"
endef

$(STAMP): pyproject.toml
	$(ENVIRONMENT)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(RUNTIME) $@

# Without development tools, which are the largest part and which the demo does not need.
$(RUNTIME): pyproject.toml
	$(ENVIRONMENT)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

demo: $(RUNTIME)  ## Run five services that sleep on this machine; Ctrl-C ends it
	@$(BIN)/activator demo

check: $(STAMP)  ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The real kubectl and helm, to compare with. Offline their tests are skipped, in CI they fail.
$(VENV)/tools/helm: tests/manifests/kubectl.txt | $(STAMP)
	@$(BIN)/python -m tests.manifests.kubectl

# More workers than cores: many tests wait for processes, or for time to pass. Each takes 4 s to load.
test: check $(VENV)/tools/helm  ## Run the checks above, then all tests, then the coverage gate
ifeq ($(PYTEST_ARGS),)
	@$(BIN)/python -m tests.bytecode
	$(BIN)/pytest -n 5 --dist worksteal --cov --cov-report=
	$(BIN)/python -m tests.coverage_gate
else
	$(BIN)/pytest -n 5 --dist worksteal $(PYTEST_ARGS)
endif

compile: $(COMPILED)/.installed  ## Compile throttler and byte path into .venv-compiled (needs gcc, python3-dev)

$(COMPILED)/.installed: pyproject.toml setup.py $(wildcard backend/*.py) $(shell find activator throttler -name '*.py')
	$(ENVIRONMENT)
	@echo "compiling throttler and byte path; this takes several minutes"
	rm -rf build
	ACTIVATOR_COMPILE=1 $(COMPILED)/bin/pip install --quiet --disable-pip-version-check '.[dev]'
	@touch $@

test-compiled: compile  ## Test throttler, byte path and processes on the compiled build
	$(COMPILED)/bin/python -m tests.compiled $(PYTEST_ARGS)

# Two clusters, each with its worker: most of the time they wait for Kubernetes.
test-cluster: $(VENV)/tools/helm  ## Test in a real control plane, and run the how-tos (needs root, and KUBEBUILDER_ASSETS: CONTRIBUTING.md)
	@$(BIN)/python -m tests.cluster.programs
	$(BIN)/pytest -n 2 --dist loadfile tests/cluster $(PYTEST_ARGS)
	$(BIN)/pytest -n 2 tests/howto $(PYTEST_ARGS)

fuzz: compile  ## Feed the same bytes to the parsers of both builds (FUZZ_ARGS='--inputs 1000000')
	$(COMPILED)/bin/python -m tests.compiled fuzz $(FUZZ_ARGS)

format: $(STAMP)  ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## Measure speed and memory, compared with nginx (Debian: apt-get install nginx-light wrk)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

# The compiled build is outside of this folder, and the source in it must not be found first.
bench-compiled: compile  ## Measure the compiled build (BENCH_ARGS="--only instructions")
	@mkdir -p build/bench && ln -sfn ../../benchmarks ../../tests build/bench
	@PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/bench $(COMPILED)/bin/python -m benchmarks $(BENCH_ARGS)

soak: $(if $(findstring --pure,$(SOAK_ARGS)),$(STAMP),compile)  ## Soak the compiled build in faults (SECONDS=1800 SEED=7 SOAK_ARGS=--pure; Debian: nginx-light iptables)
	@mkdir -p build/soak && ln -sfn ../../benchmarks ../../tests build/soak
ifneq ($(findstring --pure,$(SOAK_ARGS)),)
	@$(BIN)/python -m benchmarks.soak --seconds $(SECONDS) $(SEED:%=--seed %) $(SOAK_ARGS)
else
	@PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/soak $(COMPILED)/bin/python -m benchmarks.soak \
		--seconds $(SECONDS) $(SEED:%=--seed %) $(SOAK_ARGS)
endif

dashboards: $(STAMP)  ## Write Grafana's dashboards (manifests/monitoring/dashboards)
	$(BIN)/python -m manifests.monitoring.grafana

policy: $(STAMP)  ## Write the admission policy of the annotations (manifests/components/admission-policy)
	$(BIN)/python -m manifests.admission_policy

queries: $(STAMP)  ## Send all queries of dashboards and alerts to Prometheus, print a table (Debian: prometheus)
	$(BIN)/pytest -q -s tests/monitoring/test_queries.py

screenshots: $(STAMP)  ## Make the screenshots of docs/images, print the cost of the page (Debian: chromium pngquant)
	$(BIN)/python -m tests.browser.screenshots

lock: $(STAMP)  ## Update the locked versions of the image's packages (requirements*.lock)
	$(LOCK) --output-file requirements.lock pyproject.toml
	$(BIN)/python backend/requirements.py | $(LOCK) --output-file requirements-build.lock -

# The wheel is built from the source distribution. Its build requirements have the locked hashes.
dist: $(STAMP)  ## Build the source distribution and the pure wheel into dist/
	$(BIN)/uv build --quiet --no-config --build-constraints requirements-build.lock --require-hashes --out-dir dist .
	@ls dist/activator-$(VERSION).tar.gz dist/activator-$(VERSION)-py3-none-any.whl

# Only this target needs the generator of CycloneDX.
$(VENV)/.sbom: pyproject.toml | $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[sbom]'
	@touch $@

sbom: $(VENV)/.sbom  ## Write the bill of materials of requirements.lock (CycloneDX) into dist/
	@$(BIN)/python backend/sbom.py dist/sbom.cdx.json

install-yaml: $(VENV)/tools/helm  ## Write the manifests of each overlay into dist/ (IMAGE=name@sha256:…)
	@$(BIN)/python backend/install_yaml.py $(VENV)/tools/kubectl '$(IMAGE)' dist

chart: $(VENV)/tools/helm  ## Package the Helm chart into dist/ (IMAGE=name@sha256:… as its default image)
	@$(BIN)/python backend/chart.py $(VENV)/tools/helm dist $(if $(filter file,$(origin IMAGE)),,'$(IMAGE)')

image-proof: $(STAMP)  ## Execute the Dockerfile without a container engine (needs root, debootstrap)
	$(BIN)/python -m tests.image.prove $(PROOF_ARGS)

clean:  ## Remove environments, caches and builds
	rm -rf $(VENV) $(COMPILED) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
