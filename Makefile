# Every target does all the set-up it needs: the virtual environment in .venv is made from pinned, hashed packages and
# made again when the pins change. Prerequisites: Python 3.11 or newer, and Java 17 or newer where a ZooKeeper is run.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Most modules of the packages are never imported; Python compiles the others at their first import.
INSTALL := $(PIP) install --no-compile

SEEDS ?= 1000
JOBS ?= 2
# Test processes: one more than cores, because most integration tests wait. Files are taken in the order of their names:
# xdist would begin with those that have most tests, and end with one process at the long ones.
WORKERS ?= 3
SPREAD = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
KAFKA ?= 3.9.1 2.5.1
INTEROP ?= interop
TEST ?= not slow and not interop
SLOW ?= slow and not interop
export PYTHON
# Tests start hundreds of processes; without cached bytecode each compiles all of Lethe anew, which doubles its start.
unexport PYTHONDONTWRITEBYTECODE
DEMO ?=
REPORT ?=
BENCH ?=
ATTACKS ?=
JUDGE ?=
COMPOSE_TEST ?=
LOAD ?=
EXPLORE ?= --long
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --no-annotate

.PHONY: help
help: ## show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): requirements/build.txt requirements/dev.txt pyproject.toml tools/find_python.sh
	@python=$$(tools/find_python.sh); \
	if [ ! -x $(BIN)/python ]; then echo "making $(VENV) with $$python"; "$$python" -m venv $(VENV); fi
	@echo "installing the pinned packages into $(VENV) (once; pyspark alone is 450 MB)"
	@$(INSTALL) --require-hashes -r requirements/build.txt
	@$(INSTALL) --require-hashes --no-build-isolation -r requirements/dev.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: install
install: $(STAMP) ## make the virtual environment in .venv

.PHONY: java
java:
	@tools/check_java.sh

.PHONY: check
check: $(STAMP) ## format, lint, strict types, import layers, rules, generated pages
	@$(MAKE) --keep-going --jobs=$(JOBS) --output-sync=target check-format check-lint check-types check-layers check-rules check-docs

.PHONY: check-format check-lint check-types check-layers check-rules check-docs
check-format: $(STAMP)
	$(BIN)/ruff format --check --quiet .
check-lint: $(STAMP)
	$(BIN)/ruff check --quiet .
check-types: $(STAMP)
	$(BIN)/mypy --no-error-summary
check-layers: $(STAMP)
	@echo $(BIN)/lint-imports; layers=$$($(BIN)/lint-imports 2>&1) || { echo "$$layers"; exit 1; }
check-rules: $(STAMP)
	$(BIN)/python -m tools.rules
check-docs: $(STAMP)
	$(BIN)/python -m tools.docs --check

.PHONY: test
test: $(STAMP) java ## all quick tests, with a real ZooKeeper (TEST="not interop and not long")
	$(BIN)/pytest $(SPREAD) -m "$(TEST)" $(PYTEST)

.PHONY: test-slow
test-slow: $(STAMP) java ## the tests that take longer: chaos, whole clusters (SLOW="slow and not interop and not long")
	$(BIN)/pytest $(SPREAD) -m "$(SLOW)" $(PYTEST)

.PHONY: kafka
kafka: $(STAMP) java ## fetch the real Kafka that interop tests run (KAFKA="3.9.1 2.5.1"), once
	$(BIN)/python -m tools.fetch_kafka $(KAFKA)

.PHONY: interop
interop: kafka ## the tests against real Kafka brokers and Kafka's own controller (KAFKA="3.9.1 2.5.1")
	LETHE_KAFKA="$(KAFKA)" $(BIN)/pytest -m "$(INTEROP)" $(or $(TESTS),tests/interop) $(PYTEST)

.PHONY: authorizer
authorizer: kafka ## our authorizer beside Kafka's compiled one, on random ACLs (SETS=10000, SEED=1, KAFKA="3.9.1 2.5.1")
	$(BIN)/python -m tests.authorizer $(KAFKA) --sets $(or $(SETS),10000) --seed $(or $(SEED),1)

.PHONY: attacks
attacks: $(STAMP) java ## every attack of docs/attacks.md, tried on running daemons (minutes; ATTACKS="--only TLS", ATTACKS=--record)
	@$(BIN)/python -m tests.attacks $(ATTACKS)

.PHONY: judge
judge: kafka ## the same steps of clients against Kafka's controller and ours, compared: docs/judge.md (JUDGE=--record, JUDGE="--help")
	@$(BIN)/python -m tests.judge $(JUDGE)

.PHONY: golden
golden: kafka ## record what real controllers and real brokers say to each other: tests/wire, docs/wire-differences.md
	$(BIN)/python -m tools.golden $(KAFKA)

.PHONY: golden-pipeline
golden-pipeline: $(STAMP) java ## record the run with chaos whose tables the pipeline's tests expect: tests/pipeline/golden
	$(BIN)/python -m tests.pipeline.golden_run

.PHONY: hand-overs
hand-overs: kafka ## control to and fro between Kafka and Lethe, often (HAND_OVERS=20, SEED=1, KAFKA="3.9.1 2.5.1")
	LETHE_HAND_OVERS=$(or $(HAND_OVERS),20) LETHE_SEED=$(or $(SEED),1) LETHE_KAFKA="$(KAFKA)" \
		$(BIN)/pytest -m interop tests/interop/test_hand_overs.py tests/interop/test_old_controllers.py $(PYTEST)

.PHONY: rescue-page
rescue-page: kafka ## rescue real Kafka (KAFKA="3.9.1 2.5.1") and write docs/rescue.md
	rm -rf build/rescue
	LETHE_RESCUE_STORIES=build/rescue LETHE_KAFKA="$(KAFKA)" $(BIN)/pytest -m interop tests/interop/test_rescue.py $(PYTEST)
	$(BIN)/python -m tools.rescue_page build/rescue

.PHONY: simulate
simulate: $(STAMP) ## the simulator over many seeds (SEEDS=1000, JOBS=2)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --jobs $(JOBS)

.PHONY: known-seeds
known-seeds: $(STAMP) ## find a seed again for each planted bug of the simulator, after a change of the cores (SEEDS=1000)
	$(BIN)/python -m tests.simulation --find-bugs --seeds $(SEEDS) --jobs $(JOBS)

.PHONY: explore
explore: $(STAMP) ## every state of a small world with the real core (EXPLORE=--short, EXPLORE="--crashes 1 --bug NAME")
	$(BIN)/python -m tests.explore $(EXPLORE)

.PHONY: fuzz
fuzz: $(STAMP) ## damaged frames of the Kafka protocol at every parser (FRAMES=10000000, SEED=1); one seed, the same frames
	$(BIN)/python -m tests.fuzz --frames $(or $(FRAMES),10000000) --seed $(or $(SEED),1)

.PHONY: load
load: $(STAMP) java ## a thousand clients at a controller, many slow, silent or sending garbage (3 min; LOAD="--clients 100")
	@$(BIN)/python -m tests.load $(LOAD)

.PHONY: pipeline-kills
pipeline-kills: $(STAMP) java ## kill -9 writers of a lake at random moments; its tables stay right (minutes; KILLS=40, SEED=1)
	@$(BIN)/python -m tests.pipeline.kills --kills $(or $(KILLS),40) --seed $(or $(SEED),1)

.PHONY: chaos
chaos: kafka ## a real cluster under faults; a checker of its own decides (MINUTES=10, SEED=7, CHAOS="--json")
	@$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(CHAOS)

.PHONY: demo
demo: $(STAMP) java ## ZooKeeper, controllers and agents on this machine: create, delete, prove clean (DEMO="--chaos")
	@$(BIN)/lethe demo $(DEMO)

.PHONY: report
report: $(STAMP) java ## a demo with faults, the data pipeline over it, and one page: build/report/report.html (2 min)
	rm -rf build/report
	@$(BIN)/python -m tools.report --dir build/report $(REPORT)

.PHONY: bench
bench: $(STAMP) java ## Kafka's controller and ours by turns: docs/benchmarks.md (up to 2.5 h; BENCH=--quick, BENCH="--help")
	$(BIN)/python -m benchmarks.against_kafka $(BENCH)

.PHONY: bench-security
bench-security: $(STAMP) java ## what TLS and logins cost, up to 100,000 partitions: docs/benchmarks.md (BENCH=--quick)
	$(BIN)/python -m benchmarks.security $(BENCH)

.PHONY: bench-world
bench-world: $(STAMP) ## the core alone, canned answers, up to 1,000 brokers and 1,000,000 partitions (10 min, 4 GB; BENCH=--quick)
	$(BIN)/python -m benchmarks.world $(BENCH)

.PHONY: bench-pipeline
bench-pipeline: $(STAMP) java ## the pipeline on up to 50 million lines: docs/benchmarks.md (60 GB; BENCH=--quick)
	$(BIN)/python -m benchmarks.pipeline $(BENCH)

.PHONY: bench-turns
bench-turns: $(STAMP) java ## the pipeline of an earlier commit, ours and DuckDB by turns (EARLIER=COMMIT, BENCH="--lines 5000000")
	@$(PIP) install --require-hashes --no-deps -r requirements/bench.txt
	$(BIN)/python -m benchmarks.pipeline.turns $(if $(EARLIER),--earlier $(EARLIER)) $(BENCH)

.PHONY: bench-parts
bench-parts: $(STAMP) ## micro benchmarks of the core and the wire (BENCH=core)
	$(BIN)/python -m benchmarks $(BENCH)

.PHONY: deploy-check
deploy-check: ## alerts with their unit tests, Prometheus' configuration, systemd's units; needs promtool (apt-get install -y prometheus)
	@tools/check_deploy.sh

.PHONY: alerts
alerts: $(STAMP) java ## make every alert fire on a live cluster, and write docs/alerts-fired.json (needs prometheus; minutes)
	@command -v prometheus > /dev/null || { echo "this needs prometheus: apt-get install -y prometheus" >&2; exit 3; }
	LETHE_ALERTS=docs/alerts-fired.json $(BIN)/pytest -m slow tests/integration/test_alerts_fire.py $(PYTEST)

.PHONY: dashboards-check
dashboards-check: $(STAMP) java ## every query of every dashboard, on a real Prometheus and a live cluster (needs prometheus)
	@command -v prometheus > /dev/null || { echo "this needs prometheus: apt-get install -y prometheus" >&2; exit 3; }
	$(BIN)/pytest -m slow tests/integration/test_dashboards.py $(PYTEST)

.PHONY: compose-test
compose-test: $(STAMP) ## docker-compose.yml with a real Docker engine, from up to down (30 min; COMPOSE_TEST="--help")
	$(BIN)/python -m tests.compose $(COMPOSE_TEST)

.PHONY: docs
docs: $(STAMP) ## write the generated pages again
	$(BIN)/python -m tools.docs

.PHONY: life
life: $(STAMP) java ## record a deletion on a real cluster and write docs/life-of-one-deletion.md
	$(BIN)/python -m tools.life_of_a_deletion

.PHONY: format
format: $(STAMP) ## format the sources and mend what ruff can mend
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --quiet --fix .

.PHONY: lock
lock: $(STAMP) ## resolve the pins again (requirements/*.txt); add UPGRADE=--upgrade to move them
	$(LOCK) $(UPGRADE) requirements/build.in --output-file requirements/build.txt
	$(LOCK) $(UPGRADE) --extra dev pyproject.toml --output-file requirements/dev.txt
	$(LOCK) --constraint requirements/dev.txt pyproject.toml --output-file requirements/runtime.txt
	$(LOCK) --constraint requirements/dev.txt --extra zookeeper pyproject.toml --output-file requirements/zookeeper.txt
	$(LOCK) --constraint requirements/dev.txt --extra pipeline pyproject.toml --output-file requirements/pipeline.txt
	$(LOCK) --no-deps requirements/bench.in --output-file requirements/bench.txt

.PHONY: clean
clean: ## remove the virtual environment, caches and what the demo left
	rm -rf $(VENV) .lethe .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
