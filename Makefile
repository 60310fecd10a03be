# The project's commands. Each makes .venv if it is missing and installs from the lock only when that changed, so
# each is safe to repeat and fast the second time. Needs make, bash and a Python 3.11 to 3.14 with venv; nothing else.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

# What a caller's shell carries must not reach into .venv: a foreign module path, another Spark, an install to the home.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV SPARK_HOME PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

BIN := .venv/bin
INSTALLED := .venv/.installed
INSTALLED_4_0 := .venv-4.0/.installed

.PHONY: help install demo test test-all test-nightly test-spark-4.0 lint types format bench lock clean

help:  ## list the commands
	@sed -n 's/^\([a-z][a-zA-Z0-9.-]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r name what; do
	  printf '%-22s %s\n' "$$name" "$$what"
	done


$(INSTALLED): pyproject.toml requirements.lock tools/environment
	@tools/environment .venv requirements.lock

$(INSTALLED_4_0): pyproject.toml requirements-4.0.lock tools/environment
	@tools/environment .venv-4.0 requirements-4.0.lock

install: $(INSTALLED)  ## make .venv, with the whence command in it

demo: $(INSTALLED)  ## generated road traffic, alerts, and the questions about one of them
	@$(BIN)/whence demo

lint: $(INSTALLED)  ## style and formatting
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)  ## mypy --strict over src
	@$(BIN)/mypy --strict src

test: lint types  ## all that a developer must pass, under 10 minutes on 2 cores
	@$(BIN)/python -m pytest -m "not slow"

test-nightly: $(INSTALLED)  ## every test, the slow ones too, with far more generated cases
	@WHENCE_NIGHTLY=1 $(BIN)/python -m pytest --timeout=3600

test-spark-4.0: $(INSTALLED_4_0)  ## the tests again, on PySpark 4.0
	@.venv-4.0/bin/python -m pytest -m "not slow"

# One after the other: each starts a JVM that wants all cores.
test-all: lint types  ## everything: also the slow matrices, and PySpark 4.0
	@$(MAKE) --no-print-directory test-nightly
	$(MAKE) --no-print-directory test-spark-4.0

format: $(INSTALLED)  ## let ruff format and sort imports
	@$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

bench: $(INSTALLED)  ## list the benches
	@$(BIN)/python -m bench list

# Only this needs uv (in a folder of its own); installing from the locks needs pip alone.
lock:  ## pin the newest allowed versions anew
	@tools/lock

clean:  ## remove what the commands made
	@rm -rf .venv .venv-4.0 .venv-lock build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
