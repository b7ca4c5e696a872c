# make demo    a trained bundle and a report from a fresh machine that has Python and make
# make test    the whole test suite
# make setup   only the virtual environment
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
# Installed before the package, so that the package's open range (torch>=2.4) is satisfied already
# and pip does not fetch another build. With a wheel of your own (CUDA, ROCm), say
#   make setup TORCH=/path/to/torch.whl
TORCH ?= torch==2.13.0
# Extra flags of `make demo`, e.g. ARGS=--resume
ARGS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check

.PHONY: help setup setup-dev demo test lint fmt docs docs-serve figures soak-kill measure-admission test-sglang tokens-sglang soak-sglang soak-sglang-http sglang-wheels clean

help:
	@sed -n '1,3s/^# //p' Makefile
	@echo 'make lint    formatting, lint and types'
	@echo 'make fmt     apply formatting and safe fixes'
	@echo 'make docs    this documentation as a site in site/; no broken links'
	@echo 'make figures the pictures of the documentation, from real runs'
	@echo 'make soak-kill  ten SIGKILLs in a default-size run, then a comparison'
	@echo 'make measure-admission  both sets of admission features over ten seeds of the tiny model'
	@echo 'make test-sglang  the SGLang plugin on the real engine (CPU); SGLANG=0.5.23 for the newest'
	@echo 'make tokens-sglang  same tokens with the plugin on and off, in all 48 combinations'
	@echo 'make serve-tiny  the embedded model in SGLang on a CPU; BUNDLE=runs/mine/bundle for your own'
	@echo 'make soak-sglang  2,000 requests with aborts and odd prompts, without and with prefix cache'
	@echo 'make soak-sglang-http  the same through HTTP, with clients that go away'

setup: $(VENV)/.ready-train

setup-dev: $(VENV)/.ready-dev

$(BIN)/python:
	@$(PYTHON) -c '' || { echo 'error: $(PYTHON) does not run; install Python 3.10 or newer or pass PYTHON=/path/to/python3' >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "error: $$($(PYTHON) --version) is too old: Python 3.10 or newer is needed; pass PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo 'error: $(PYTHON) cannot create virtual environments; on Debian and Ubuntu: apt-get install python3-venv' >&2; exit 2; }
	@$(PYTHON) -c 'import ctypes, sys; sys.platform == "linux" and ctypes.CDLL("libgomp.so.1")' 2>/dev/null || { \
	  echo 'error: LightGBM needs libgomp.so.1; on Debian and Ubuntu: apt-get install libgomp1' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready-train: pyproject.toml | $(BIN)/python
	@echo 'installing into $(VENV): about 2 GB, one to five minutes'
	$(PIP) '$(TORCH)'
	$(PIP) --editable '.[experiments]'
	@touch $@

$(VENV)/.ready-dev: pyproject.toml | $(VENV)/.ready-train
	$(PIP) --editable '.[experiments,dev]'
	@touch $@

$(VENV)/.ready-docs: pyproject.toml | $(VENV)/.ready-train
	$(PIP) --editable '.[train,docs]'
	@touch $@

demo: setup
	$(BIN)/dwise-train --model tiny $(ARGS)

test: setup-dev
	$(BIN)/python -m pytest

lint: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fmt: setup-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Not --quiet: it would hide warnings from --strict, too. The announcements of mkdocs 2 concern
# nobody here: pyproject.toml keeps to mkdocs 1.
MKDOCS = NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs

docs: $(VENV)/.ready-docs
	$(MKDOCS) build --strict
	@echo 'site/index.html'

docs-serve: $(VENV)/.ready-docs
	$(MKDOCS) serve

# Serves the embedded model under both schedulers: half a minute.
figures: setup
	$(BIN)/python docs/figures/draw.py

# Ten SIGKILLs at random moments of a default-size run, then the bundle is compared with an
# undisturbed run's. Takes about as long as three demos.
soak-kill: setup-dev
	$(BIN)/python tests/soak/kill_resume.py

# Ten profiles of the tiny model and twenty trainings: about twenty minutes.
measure-admission: setup-dev
	$(BIN)/python benchmarks/measure_admission_features.py --seeds 10 --out runs/admission

# The real engine on a CPU, in an environment of its own (1.6 GB, about 90 s to set up).
SGLANG ?= 0.5.20
SGLANG_VENV ?= .venv-sglang-$(SGLANG)
XGRAMMAR_0.5.20 := 0.2.1
XGRAMMAR_0.5.23 := 0.2.7
SGLANG_PIP = $(SGLANG_VENV)/bin/python -m pip install -qq --disable-pip-version-check

$(SGLANG_VENV)/.ready: tests/e2e/sglang/requirements-$(SGLANG).txt pyproject.toml
	@test -n '$(XGRAMMAR_$(SGLANG))' || { echo 'error: SGLANG must be 0.5.20 or 0.5.23, not $(SGLANG)' >&2; exit 2; }
	$(PYTHON) -m venv $(SGLANG_VENV)
	$(SGLANG_PIP) '$(TORCH)'
	$(SGLANG_PIP) --requirement tests/e2e/sglang/requirements-$(SGLANG).txt --editable .
	$(SGLANG_PIP) --no-deps sglang==$(SGLANG) compressed-tensors==0.18.0 xgrammar==$(XGRAMMAR_$(SGLANG))
	@touch $@

# Stays in the foreground; examples/ask_server.py asks it.
BUNDLE ?= tiny
serve-tiny: $(SGLANG_VENV)/.ready
	$(SGLANG_VENV)/bin/python examples/serve_tiny.py --bundle $(BUNDLE)

# Both releases as archives, whose sources the contract test reads.
.sglang-wheels/.ready: | $(SGLANG_VENV)/.ready
	for version in 0.5.20 0.5.23; do \
	  $(SGLANG_VENV)/bin/python -m pip download -q --no-deps --dest .sglang-wheels sglang==$$version || exit 1; done
	@touch $@

sglang-wheels: .sglang-wheels/.ready

test-sglang: $(SGLANG_VENV)/.ready .sglang-wheels/.ready
	$(SGLANG_VENV)/bin/python -m pytest tests/unit/plugin tests/unit/sglang tests/e2e/sglang

# Same tokens with the plugin on and off: models x algorithms x block sizes x prefix cache.
tokens-sglang: $(SGLANG_VENV)/.ready
	WHOLE_PRODUCT=1 $(SGLANG_VENV)/bin/python -m pytest tests/e2e/sglang/test_scheduling.py -k tokens

# Aborts in every state, priorities, odd prompts and KV pressure, without and with prefix cache.
soak-sglang: $(SGLANG_VENV)/.ready
	$(SGLANG_VENV)/bin/python -m tests.e2e.sglang.soak engine 2000

# The same through HTTP, with clients that go away.
soak-sglang-http: $(SGLANG_VENV)/.ready
	$(SGLANG_VENV)/bin/python -m tests.e2e.sglang.soak http 2000

clean:
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
