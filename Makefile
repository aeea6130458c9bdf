# Everything a developer runs. `make help` lists it. A fresh clone needs Python >= 3.11, and Go for tests; the rest is fetched.

# Settings (override on the command line: `make suite SUITES=pool PYTEST_ARGS="-k quota"`)
PYTEST_ARGS ?=
WORKERS     ?= auto
HASH_SEED   ?= 0
ROOM        ?=
SAMPLE      ?= 150
SUITES      ?=
UP_ARGS     ?=
BENCH_ARGS  ?=
FUZZ_ARGS   ?=
ATTACKS_ARGS ?=

# The first interpreter on the PATH that is new enough
ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v "$$p" && break; done)
endif

# Many processes start here; without compiled modules each would spend seconds on compiling them again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv/bin
# Files keep their order: by their numbers of tests, those that take longest would begin last.
PYTEST = PYTHONHASHSEED=$(HASH_SEED) $(VENV)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory --no-builtin-rules
.DEFAULT_GOAL := help
.PHONY: help environment binaries up up-real demo down check test verify suite gate test-node test-unit mutants documents lint format generate bench conformance conformance-embedded conformance-whole chaos attacks fuzz parity clean

help: ## Show this list
	@echo "Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Settings:"
	@echo "  PYTHON       interpreter that makes .venv, >= 3.11        (now: $(or $(PYTHON),none found))"
	@echo "  PYTEST_ARGS  more arguments for pytest                    (make suite SUITES=pool PYTEST_ARGS='-k quota')"
	@echo "  WORKERS      processes that tests run in                  (now: $(WORKERS), one for each processor)"
	@echo "  HASH_SEED    seed of Python's hashes in tests             (make test-unit HASH_SEED=7)"
	@echo "  SUITES       names of suites; '.venv/bin/python -m hack.suites list' lists all  (make verify SUITES='pool attacks')"
	@echo "  ROOM, SAMPLE room and number of mutants of 'make mutants' (make mutants ROOM=kube SAMPLE=50)"
	@echo "  UP_ARGS      arguments of 'make up', 'demo' and 'up-real' (make up UP_ARGS='--tenants a,b')"
	@echo "  BENCH_ARGS   arguments of 'make bench'"
	@echo "  FUZZ_ARGS    arguments of 'make fuzz'               (make fuzz FUZZ_ARGS='--seed 7')"
	@echo "  ATTACKS_ARGS arguments of 'make attacks'            (make attacks ATTACKS_ARGS='--on one --only names')"
	@echo "  KUBEBUILDER_ASSETS  folder with compiled etcd, kube-apiserver and kubectl, to use instead of building them"

environment:
	@command -v "$(PYTHON)" >/dev/null || { echo "make: no Python >= 3.11 on the PATH; install one or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) hack/environment.py

binaries: environment ## Build the Kubernetes programs of the test bed (about ten minutes once, then cached)
	@$(VENV)/python -m hack.testbed build

up: environment ## Run the whole system in one process, and print what to type next; Ctrl-C stops it
	@$(VENV)/vcsync up $(UP_ARGS)

demo: environment ## Run a walk-through of the whole system, with a commentary
	@$(VENV)/vcsync demo $(UP_ARGS)

up-real: binaries ## Start real Kubernetes servers with all roles, and run a walk-through; Ctrl-C stops it
	@$(VENV)/python -m hack.up $(UP_ARGS)

down: environment ## Stop processes that 'make up-real' may have left running
	@$(VENV)/python -m hack.testbed down --dir .testbed/up

check: lint ## Lint, and run the unit tests of the rooms that changed since the last commit that passed the gate (two minutes)
	@$(VENV)/python -m hack.suites.check

test: binaries ## Run all unit tests, then the core tests on real Kubernetes API servers (ten minutes)
	@$(VENV)/python -m hack.suites run unit core --args "$(PYTEST_ARGS)"

verify: binaries ## Run all other suites that have not passed on this tree, in a copy of it; print a table (SUITES)
	@$(VENV)/python -m hack.suites verify $(SUITES)

suite: binaries ## Run suites with their output, whether they have passed or not (SUITES, PYTEST_ARGS)
	@$(VENV)/python -m hack.suites run $(SUITES) --args "$(PYTEST_ARGS)"

gate: environment ## Run CI's checks in a clean clone of HEAD, and remember the commit if they pass
	@$(VENV)/python -m hack.suites.gate

test-node: binaries ## Run the tests with real kubelets and containers; needs root (twenty minutes, and five more once to build them)
	@$(VENV)/python -m hack.suites run node --args "$(PYTEST_ARGS)"

test-unit: environment ## Run the unit tests only (three minutes)
	@$(PYTEST) tests/unit $(PYTEST_ARGS)

documents: binaries ## Run every command of README and docs/ as a reader would type it
	@$(VENV)/python -m hack.documents

mutants: environment ## Insert small faults into the code and count those that its unit tests detect (ROOM, SAMPLE)
	@$(VENV)/python -m hack.mutants $(addprefix --room ,$(ROOM)) --sample $(SAMPLE)

lint: environment ## Check format, style, types, import rules, circles, spelling, prose and generated files
	@echo "==> ruff format"   && $(VENV)/ruff format --check --quiet . || { echo "make lint: run 'make format'" >&2; exit 1; }
	@echo "==> ruff check"    && $(VENV)/ruff check --quiet .
	@echo "==> mypy --strict" && $(VENV)/mypy --strict
	@echo "==> import rules"  && $(VENV)/lint-imports --verbose
	@echo "==> house"        && $(VENV)/python -m hack.house
	@echo "==> spelling"     && $(VENV)/codespell
	@echo "==> prose"        && $(VENV)/python -m hack.prose
	@echo "==> generated files" && $(VENV)/python -m hack.generate --check

format: environment ## Format the code
	@$(VENV)/ruff format .
	@$(VENV)/ruff check --fix --quiet . || true

generate: environment ## Write the generated files: CRDs and RBAC in config/, schemas, docs/configuration.md
	@$(VENV)/python -m hack.generate

bench: binaries ## Measure the latency of Pods through the pool, the embedded control plane, and `vcsync up`
	@$(VENV)/python -m hack.bench $(BENCH_ARGS)
	@$(VENV)/python -m hack.bench_plane
	@$(VENV)/python -m hack.bench_up

conformance: binaries ## Run the official Kubernetes conformance tests against a tenant
	@$(VENV)/python -m hack.conformance

conformance-embedded: binaries ## Run them against an embedded control plane that serves as a cluster
	@$(VENV)/python -m hack.conformance --embedded

conformance-whole: binaries ## Run them against a tenant of 'vcsync up', where all servers and controllers are ours
	@$(VENV)/python -m hack.conformance --whole

parity: binaries ## Send the same requests to kube-apiserver and to the embedded control plane and compare the answers
	@$(VENV)/python -m hack.parity

chaos: binaries ## Kill roles and cut connections for 10 minutes, then audit (CHAOS_SECONDS, CHAOS_SEED)
	@$(VENV)/python -m pytest -s tests/chaos $(PYTEST_ARGS)

attacks: binaries ## Attack other tenants and the server in thousands of ways, on one process and on two over etcd (ATTACKS_ARGS)
	@$(VENV)/python -m hack.attacks.tables.sweep $(ATTACKS_ARGS)

fuzz: environment ## Send 1,000,000 hostile requests to a tenant of the embedded control plane (FUZZ_ARGS)
	@$(VENV)/python -m hack.fuzz $(FUZZ_ARGS)

clean: ## Remove the environment and every cache in the checkout
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
