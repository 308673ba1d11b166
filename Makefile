# Two commands do everything: `make run` plays an example, `make test` runs all tests. Both set up what they need.
PY ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
WORKERS ?= auto
EXAMPLES ?= 50
CASES ?= tests/fixtures/conformance
DIR ?= tests/fixtures/canvas

# PY=python3.13 make test: set up anew when .venv has another version than the one that was asked for.
ifneq ($(origin PY),file)
ifneq ($(shell $(BIN)/python -V 2>&1),$(shell $(PY) -V 2>&1))
FRESH := --clear
.PHONY: $(VENV)/.ok
endif
endif

.PHONY: run test clients databases test-databases fuzz-api test-elasticsearch lint format bench soak conformance corpus
.PHONY: crash schema studio clean

run: $(VENV)/.ok
	@$(BIN)/python examples/play.py

test: $(VENV)/.ok clients
	@$(BIN)/python -m ragflow_lg.checkpoints.redis.redis_server
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=15 --cov --cov-report=term:skip-covered

# RAGFlow's SDK in the versions that people have. Most want another Python, and work in this one all the same.
SDKS := 0.22.1 0.23.1 0.24.0 0.25.0 0.25.1 0.25.6 0.26.4 0.27.3 1.0.0rc2
clients: $(SDKS:%=.cache/clients/%) .cache/schemathesis

.cache/clients/%: $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python --target $@ ragflow-sdk==$* \
		|| echo "ragflow-sdk $* cannot be had; its tests are skipped." >&2

# It asks every route nonsense; what it needs does not fit what LangGraph's own server needs.
.cache/schemathesis: $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $@ schemathesis==4.32.5 2>/dev/null \
		|| echo "schemathesis cannot be had; its test is skipped." >&2

# PostgreSQL and MariaDB for the tests: what is not installed is unpacked into .cache, with no rights and no service.
databases: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.database_servers

# The server's database on SQLite, PostgreSQL and MariaDB; one that is missing is a failure here.
test-databases: databases
	REQUIRE_DATABASES=1 $(BIN)/python -m pytest tests/server/database

# Nonsense for every route of the OpenAPI document, EXAMPLES of each kind; the server may fail nowhere.
fuzz-api: clients
	$(BIN)/python -m tests.harness.api_fuzz $(EXAMPLES)

# Against a real Elasticsearch: that of ELASTICSEARCH_URL, or one that Maven puts together and that ends with the tests.
test-elasticsearch: $(VENV)/.ok
	$(BIN)/python -m tests.harness.elasticsearch_node $(BIN)/python -m pytest -m elasticsearch tests/ragflow_lg/adapters/elasticsearch

lint: $(VENV)/.ok
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/codespell

format: $(VENV)/.ok
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.ok
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.knowledge
	$(BIN)/python -m benchmarks.server

# Long: 20,000 turns take most of an hour. `make soak TURNS=500` for a look.
soak: $(VENV)/.ok
	$(BIN)/python -m benchmarks.soak $(TURNS)

conformance: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.conformance $(CASES)

crash: $(VENV)/.ok
	@$(BIN)/python -m ragflow_lg.checkpoints.redis.redis_server
	@$(BIN)/python -m tests.harness.crash tests/fixtures/crash examples

corpus: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.corpus $(DIR)

studio: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.studio $(DIR)

schema: $(VENV)/.ok
	$(BIN)/ragflow-lg schema -o docs/canvas.schema.json

$(VENV)/.ok: pyproject.toml constraints.txt
	@$(PY) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else "ragflow-lg needs Python 3.11 to 3.13; choose one with PY=python3.12 make …")'
	@echo "Setting up $(VENV) with what pyproject.toml names; this takes a minute or two, once."
ifdef UV
	@test -z "$(FRESH)" -a -x $(BIN)/python || $(UV) venv --quiet $(FRESH) --python $(PY) $(VENV)
	@$(UV) pip install --quiet --python $(BIN)/python -c constraints.txt -e ".[dev]"
else
	@test -z "$(FRESH)" -a -x $(BIN)/python || $(PY) -m venv $(FRESH) $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
endif
	@$(BIN)/python -m compileall -q ragflow_lg dsl_compiler checkpoints server  # the first command is quick, too
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
