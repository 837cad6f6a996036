# Commands of this repository. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE  # hundreds of processes would compile the same files again
BIN := .venv/bin
PYTHON ?= python3.11
JAVAC := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/)javac
MVN := mvn -B -ntp -f storm-plugin/pom.xml
NO_CLUSTER := "not cluster and not zookeeper and not docker and not spark"
MVN_SCHEDULERS := mvn -B -ntp -f storm-plugin/storm-schedulers/pom.xml
JAR := build/.jar
JAVA_SOURCES := $(shell find storm-plugin -name '*.java' -path '*/main/*' -o -name '*.java' -path '*/worker/topology/*' -o -name pom.xml)

.PHONY: help setup build demo fuzz soak test test-unit test-functional test-java test-versions test-storms test-integration test-spark test-clusters test-faults test-containers test-docker dist docs check format man lock tools clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

tools:
	@command -v $(PYTHON) >/dev/null || { echo "stormpilot needs Python 3.11, JDK 17 and Maven; Python 3.11 is missing (Debian: apt-get install python3.11 python3.11-venv), or name one: make PYTHON=/path/to/python3.11 ..." >&2; exit 2; }
	@test -e .venv/.installed || $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "stormpilot needs Python 3.11 with venv; venv is missing in $(PYTHON) (Debian: apt-get install python3.11-venv)" >&2; exit 2; }
	@found=$$("$(JAVAC)" -version 2>&1) || true; [[ "$$found" == *"javac 17"* ]] || { echo "stormpilot needs Python 3.11, JDK 17 and Maven; the JDK is missing or another one: $(JAVAC) -version says '$$found' (Debian: apt-get install openjdk-17-jdk-headless; where JAVA_HOME is set, it must name that one)" >&2; exit 2; }
	@command -v mvn >/dev/null || { echo "stormpilot needs Python 3.11, JDK 17 and Maven; Maven is missing (Debian: apt-get install maven)" >&2; exit 2; }

setup: tools .venv/.installed ## make .venv with .venv/bin/stormpilot

.venv/.installed: constraints.txt pyproject.toml
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@echo "setup: installing the pinned Python packages into .venv (the first time downloads about 700 MB)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --root-user-action=ignore --require-hashes -r constraints.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --no-build-isolation -e .
	@touch $@

build: setup $(JAR) build/.planners build/.queries ## build the jars for Nimbus and workers, compile the planners, build the queries of mining

$(JAR): $(JAVA_SOURCES)
	@echo "build: the jars for Nimbus and workers (Maven)"
	@$(MVN) -q -DskipTests package
	@mkdir -p build && touch $@

build/.planners: $(shell find controller/stormpilot/planner controller/stormpilot/model -name '*.py') | setup
	@echo "build: compiling the planners, once (a minute or two)"
	@$(BIN)/stormpilot planners --compile
	@mkdir -p build && touch $@

build/.queries: $(wildcard controller/stormpilot/history/mine/*.py) controller/stormpilot/history/frames.py controller/stormpilot/trafficlog/schema.py | setup
	@$(BIN)/python -m stormpilot.history.mine.build
	@mkdir -p build && touch $@

demo: build ## a real cluster, a real job, before and after (about 4 minutes; KEEP=1 keeps the cluster up)
	@PYTHONPATH=topologies/src $(BIN)/python -m benchmarks.demo $(if $(KEEP),--keep)

test: setup ## everything: checks, unit, contract, functional, Java, integration, containers
	@$(MAKE) --no-print-directory -j2 -Oline build check test-java test-spark # each takes one core
	@$(MAKE) --no-print-directory test-unit test-functional test-clusters test-containers

test-unit: setup build/.planners ## unit and contract tests: two minutes of two cores
	$(BIN)/pytest -q --durations=12 -n 2 -m $(NO_CLUSTER) tests/unit tests/contract tests/soak

test-functional: build ## functional tests, and mining with DuckDB (no cluster)
	$(BIN)/pytest -q --durations=12 -n 2 -m $(NO_CLUSTER) $(addprefix --ignore tests/,unit contract soak docker) tests

fuzz: build ## hostile input for every decoder and the controller (COUNT=10000 inputs of each kind, at most SECONDS=1800 for one); what breaks something is kept in tests/data/fuzz
	PYTHONPATH=.:tests:tests/support $(BIN)/python tests/support/fuzzing.py --count $(or $(COUNT),10000) --seconds $(or $(SECONDS),1800) --seed $(or $(SEED),0)
	API_EXAMPLES=300 $(BIN)/pytest -q -s tests/functional/api/test_schema.py
	$(MVN) -q test -pl scheduler -Dtest=DecoderFuzzTest -DargLine= -Dfuzz.tries=$(or $(COUNT),10000)

soak: build ## faults from a seed on a real cluster, and a checker of the history (ARGS="--minutes 90 --seed 1"); history and logs in build/soak
	PYTHONPATH=.:tests:tests/support $(BIN)/python -m soak.run $(ARGS)

test-java: setup $(JAR) ## the plug-in's own tests
	$(MVN) test
	$(MVN_SCHEDULERS) test

test-versions: tools ## the Java tests of both jars built on other minors of Storm (STORM_VERSIONS="2.7.1"; STORM_JAVA_HOME=/path: run on that Java 11), at most 20 minutes for each; logs in build/versions
	@failed=; for v in $(or $(STORM_VERSIONS),2.4.0 2.5.0 2.6.4 2.7.1); do \
	  rm -rf build/versions/$$v && mkdir -p build/versions/$$v/tests; \
	  cp -r storm-plugin LICENSE build/versions/$$v/ && cp -r tests/contract tests/data build/versions/$$v/tests/ && mkdir build/versions/$$v/docs && cp -r docs/reference build/versions/$$v/docs/ && rm -rf build/versions/$$v/storm-plugin/*/target; \
	  if timeout 1200 mvn -B -ntp -f build/versions/$$v/storm-plugin/pom.xml -Dstorm.version=$$v $(if $(STORM_JAVA_HOME),-Djava11=$(STORM_JAVA_HOME)) -pl scheduler,worker test >build/versions/$$v.log 2>&1; \
	  then echo "Storm $$v: passed"; else failed=1; echo "Storm $$v: failed"; fi; \
	  grep -E "^\[(ERROR|INFO|WARNING)\] +Tests run: [0-9]+, .*[^a-z]$$|COMPILATION ERROR" build/versions/$$v.log | sort -u | tail -4 || true; \
	done; test -z "$$failed"

test-storms: build ## fallback, plan, drain, rollback, hook and routes on clusters of other minors of Storm, one after the other (STORM_VERSIONS="2.7.1"; STORM_JAVA_HOME=/path: with that Java, 11 or newer)
	@failed=; for v in $(or $(STORM_VERSIONS),2.4.0 2.5.0 2.6.4 2.7.1); do \
	  STORM_VERSIONS=$$v STORM_JAVA_HOME=$(STORM_JAVA_HOME) $(BIN)/pytest -v -m versions tests/e2e/test_older_storm.py || failed=1; \
	done; test -z "$$failed"

test-integration: test-spark test-clusters ## tests on a real ZooKeeper, a real Spark and a real local Storm cluster

test-spark: build
	$(BIN)/pytest -q --durations=10 -m "spark and not long" tests/integration/history

test-clusters: build
	$(BIN)/pytest -q --durations=12 -n 2 -m "zookeeper and not cluster and not faults" tests
	$(BIN)/pytest -q -rR --reruns 1 --only-rerun UnreachableError -m cluster tests/e2e/test_demo.py # takes both cores
	$(BIN)/pytest -q --durations=40 -n 2 --dist loadfile --no-loadscope-reorder -rR --reruns 1 --only-rerun UnreachableError -m "cluster and not faults and not long and not versions" --ignore tests/e2e/test_demo.py tests
	$(BIN)/pytest -q --durations=10 -m smoke tests/e2e/faults

test-faults: build ## parts of a real cluster broken one by one (docs/concepts/fault-tolerance.md; `test` runs five of them), and what is too long for `test`; 20 minutes
	$(BIN)/pytest -v -m "faults or long" tests

dist: build ## what is shipped, in dist/: jars, wheel, pinned requirements, SBOM, licences, checksums, compose bundle
	@$(BIN)/python -m tools.release

docs: setup ## the documents as a site, in build/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

test-containers: build ## ZooKeeper and the compose cluster in containers; skipped, with a line, where Docker does not run
	@$(BIN)/python -m tools.release --no-audit >/dev/null
	$(BIN)/pytest -q --durations=10 $(addprefix tests/docker/test_,zookeeper.py compose.py)

test-docker: dist ## everything in containers: also Spark, the hook, lost supervisors, and the install pages word for word; about 20 minutes
	$(BIN)/pytest -v tests/docker

check: setup ## ruff, mypy --strict, Java formatting (the import rule is a unit test)
	$(BIN)/ruff check controller tests topologies benchmarks tools
	$(BIN)/ruff format --check controller tests topologies benchmarks tools
	$(BIN)/mypy
	$(MVN) -q spotless:check
	$(MVN_SCHEDULERS) -q spotless:check

format: setup ## format Python and Java
	$(BIN)/ruff format controller tests topologies benchmarks tools
	$(BIN)/ruff check --fix-only controller tests topologies benchmarks tools
	$(MVN) -q spotless:apply
	$(MVN_SCHEDULERS) -q spotless:apply

bench-%: build ## run benchmarks/NAME (ARGS="..."), print its table, write build/bench/NAME.json
	@mkdir -p build/bench
	PYTHONPATH=topologies/src $(BIN)/python -m benchmarks.$* $(ARGS)

man: setup ## the man page, build/man/stormpilot.1
	@$(BIN)/python -m stormpilot.cli.manual build/man/stormpilot.1
	@echo "build/man/stormpilot.1: read it with man -l"

lock: .venv/.installed ## write constraints.txt anew from pyproject.toml (versions and hashes only)
	$(BIN)/uv pip compile -q pyproject.toml --all-extras --generate-hashes --no-header \
	  --no-annotate --python-version 3.11 -o constraints.txt

clean: ## remove what was built (not .venv, not the cached Storm home)
	rm -rf build storm-plugin/*/target
