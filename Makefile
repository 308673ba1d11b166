# Two commands do everything: `make run` runs an example, `make test` runs all tests. Both set up what they need.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
PY ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Nothing is compiled when it is installed: what is imported is compiled then, and stored even if the shell forbids it.
PYTHON := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python
PYTEST := $(PYTHON) -m pytest
# Two processes for each core: many tests wait for a server or a lease.
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
EXAMPLES ?= 50
CHROMIUM := chromium chromium-browser google-chrome-stable google-chrome
CASES ?= tests/fixtures/conformance
DIR ?= tests/fixtures/canvas

# PY=python3.13 make test: recreate the environment when .venv has another version than the one that was asked for.
ifneq ($(origin PY),file)
ifneq ($(shell $(BIN)/python -V 2>&1),$(shell $(PY) -V 2>&1))
FRESH := --clear
.PHONY: $(VENV)/.ok $(VENV)/.run $(VENV)/.serve
endif
endif

.PHONY: run serve test coverage bytecode clients databases sandboxes setup-browser attacks test-databases fuzz-api test-elasticsearch lint lint-code lint-page lint-prose site format bench conformance shown corpus corpus-table templates tools
.PHONY: hashes pin-images audit sbom crash eject failover workers deaths upgrade noisy fuzz-canvases poisoned-rows regions takeovers properties ragflow-ui schema studio clean

# The environment of `make test` holds everything, so `make run` uses it if it exists.
run: $(if $(wildcard $(VENV)/.ok),$(VENV)/.ok,$(VENV)/.run)
	@$(PYTHON) examples/play.py

# The page in the browser, for canvases of yours: `make serve CANVAS=my_canvas.json`; MODEL=demo needs no key. RAGFlow's own
# port is 9380 as well: PORT=0 selects a free one.
CANVAS ?= examples/customer_service_router.json
serve: $(if $(wildcard $(VENV)/.ok),$(VENV)/.ok,$(VENV)/.serve)
	@$(BIN)/ragflow-lg serve $(CANVAS) $(if $(MODEL),--model $(MODEL)) $(if $(PORT),--port $(PORT)) --open

test: $(VENV)/.ok clients sandboxes
	@$(BIN)/python -m tests.harness.redis_server
	@command -v $(CHROMIUM) >/dev/null || echo "Chromium is missing: the tests of Browser are skipped. Try make setup-browser." >&2
	$(PYTEST) -n $(WORKERS) --dist worksteal --durations=15 $(OPTIONS)

# Tracing every line more than doubles the time of Python code, so only those who ask pay for it.
coverage:
	@$(MAKE) --no-print-directory test OPTIONS="--cov --cov-report=term:skip-covered $(OPTIONS)"

# Compile the tests and all that they import, in one process: otherwise each process of `make test` does the same.
bytecode: $(VENV)/.ok
	@$(PYTEST) --collect-only -qq -n0 >/dev/null

# RAGFlow's SDK in the versions that people have. Most want another Python, and work in this one all the same.
SDKS := 0.22.1 0.23.1 0.24.0 0.25.0 0.25.1 0.25.6 0.26.4 0.27.3 1.0.0rc2
clients: $(SDKS:%=.cache/clients/%) .cache/schemathesis .cache/aegra

.cache/clients/%: $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python --target $@ ragflow-sdk==$* \
		|| echo "ragflow-sdk $* cannot be had; its tests are skipped." >&2

# It asks every route nonsense; what it needs does not fit what LangGraph's own server needs.
.cache/schemathesis: $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $@ schemathesis==4.32.5 2>/dev/null \
		|| echo "schemathesis cannot be had; its test is skipped." >&2

# A server with LangGraph's API. The rest of what it needs is in the environment. It wants a newer Python, and works in 3.11.
AEGRA := aegra-api==0.11.0 aegra-cli==0.11.0 asgi-correlation-id==5.0.1 asyncpg==0.32.0 hiredis==3.5.0 \
	langgraph-checkpoint-postgres==3.2.0 openinference-instrumentation==0.1.72 \
	openinference-instrumentation-langchain==0.1.80 openinference-semantic-conventions==0.1.42 \
	opentelemetry-exporter-otlp==1.45.2 opentelemetry-exporter-otlp-proto-grpc==1.45.2 \
	opentelemetry-instrumentation==0.66b2 prometheus-fastapi-instrumentator==8.1.0 psycopg-pool==3.3.3 wrapt==2.5.2
.cache/aegra: $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python --target $@ $(AEGRA) \
		|| echo "Aegra cannot be had; its test is skipped." >&2

.cache/playwright: $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $@ playwright==1.65.2

# A session in RAGFlow's own front end, in Chromium. DIST is a build of it: docs/ragflow_ui.md.
ragflow-ui: .cache/playwright
	$(BIN)/python -m tests.harness.ragflow_ui $(DIST)
	$(BIN)/python -m tests.harness.ragflow_ui $(DIST) --part agents

# PostgreSQL and MariaDB for the tests: what is not installed is unpacked into .cache, with no rights and no service.
databases: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.database_servers

# Bubblewrap for the tests of CodeExec, unpacked without rights into .cache if it is not installed, and Pyodide for Deno.
# Tests are skipped, each by name, if that is not possible.
sandboxes: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.bubblewrap_package
	@$(BIN)/python -m tests.harness.pyodide_package

# Chromium for Browser, the one package that it needs beside the extra `browser`. This is Debian's; needs root.
setup-browser:
	@command -v $(CHROMIUM) >/dev/null \
		|| { apt-get update -qq && apt-get install --yes -qq --no-install-recommends chromium; }

# Hostile programs in Bubblewrap and Deno, as a table of what was seen.
attacks: sandboxes
	@$(BIN)/python -m tests.harness.attacks $(OPTIONS)

# The server's database and ExeSQL on SQLite, PostgreSQL and MariaDB; one that is missing is a failure here.
test-databases: databases
	REQUIRE_DATABASES=1 $(BIN)/python -m pytest tests/server/database tests/ragflow_lg/adapters/sql tests/ragflow_lg/tools/test_exe_sql.py

# Nonsense for every route of the OpenAPI document, EXAMPLES of each kind; the server may fail nowhere.
fuzz-api: clients
	$(BIN)/python -m tests.harness.api_fuzz $(EXAMPLES) $(if $(REQUESTS),--requests $(REQUESTS))

# Random and damaged canvases, FUZZED of them: each one is refused, runs or fails, and none blocks or ends the process.
fuzz-canvases: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.canvas_fuzz $(or $(FUZZED),5000) $(SEED)

# Against a real Elasticsearch: that of ELASTICSEARCH_URL, or one that Maven puts together and that ends with the tests.
test-elasticsearch: $(VENV)/.ok
	$(BIN)/python -m tests.harness.elasticsearch_node $(BIN)/python -m pytest -m elasticsearch $(OPTIONS) tests/ragflow_lg/adapters/elasticsearch

# The prose linter: the one that is installed, or built by Go's own tools.
VALE := .cache/bin/vale
PROSE := README.md CONTRIBUTING.md CHANGELOG.md docs examples/README.md benchmarks ragflow_lg tests
$(VALE):
	@mkdir -p $(@D)
	@if command -v vale >/dev/null; then ln -sf "$$(command -v vale)" $@; \
	elif command -v go >/dev/null; then \
		echo "Building the prose linter Vale; this takes a minute, once."; \
		CGO_CFLAGS=-w GOBIN=$(CURDIR)/$(@D) go install github.com/vale-cli/vale/v3/cmd/vale@v3.22.0; \
	else echo "make lint needs Vale: install it (https://vale.sh), or Go to build it." >&2; exit 1; fi

# The documentation as a site that also opens from disk; a broken link is an error.
site: $(VENV)/.ok
	@rm -rf .cache/documentation && mkdir -p .cache/documentation && cp -r docs zensical.toml .cache/documentation
	@cd .cache/documentation && $(CURDIR)/$(BIN)/python -m zensical build --strict # it fills a folder .cache of its own
	@echo "Open .cache/documentation/site/index.html"

lint: lint-code lint-page lint-prose

lint-code: $(VENV)/.ok
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m tests.harness.rooms
	$(BIN)/codespell

# The types and rules of the page's modules. The libraries get the types of their packages.
PAGE_TOOLS := .cache/page_tools
lint-page:
	@if ! { command -v node && command -v npm; } >/dev/null; then echo "node and npm are missing: the page's modules are not checked." >&2; \
	else $(MAKE) --no-print-directory $(PAGE_TOOLS)/.ok && rm -rf $(PAGE_TOOLS)/js && cp -r server/page/js $(PAGE_TOOLS) \
		&& $(PAGE_TOOLS)/node_modules/.bin/tsc -p $(PAGE_TOOLS) \
		&& $(PAGE_TOOLS)/node_modules/.bin/eslint --config $(PAGE_TOOLS)/eslint.config.js server/page/js; fi

$(PAGE_TOOLS)/.ok: $(wildcard .ci/page_tools/* .ci/page_tools/vendor/*)
	@rm -rf $(PAGE_TOOLS) && mkdir -p $(@D) && cp -r .ci/page_tools/. $(PAGE_TOOLS)
	@cd $(PAGE_TOOLS) && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

lint-prose: $(VALE)
	$(VALE) $(PROSE)

format: $(VENV)/.ok
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.ok
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.durability
	$(BIN)/python -m benchmarks.server

# What the image installs, by hash; after every change of constraints.txt.
hashes: $(VENV)/.ok
	@$(BIN)/python deploy/pin_hashes.py

# Images by digest, in the Dockerfile and the compose file: needs Docker and the images' registry.
pin-images: $(VENV)/.ok
	@$(BIN)/python deploy/pin_images.py

# Known vulnerabilities of what the image installs. The tool asks a public database, so it needs a network.
audit: .cache/supply
	@PYTHONPATH=.cache/supply $(BIN)/python -m pip_audit --requirement deploy/requirements.txt --require-hashes --disable-pip \
		--strict || { echo "make audit failed: vulnerabilities are listed above, or the database cannot be reached." >&2; exit 1; }

# The components of the image as CycloneDX, in sbom.cdx.json.
sbom: .cache/supply
	@PYTHONPATH=.cache/supply $(BIN)/python -m cyclonedx_py requirements deploy/requirements.txt --pyproject pyproject.toml \
		--output-reproducible --output-format JSON --output-file sbom.cdx.json
	@echo "sbom.cdx.json: $$(grep -c '"purl"' sbom.cdx.json) components"

.cache/supply: $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $@ pip-audit==2.10.1 cyclonedx-bom==7.5.0 \
		|| { rm -rf $@; echo "pip-audit and cyclonedx-bom cannot be installed; this needs a package index." >&2; exit 1; }

conformance: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.conformance $(CASES)

CANVASES ?= 500
SEED ?= 0
shown: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.shown_runs $(CANVASES) $(SEED)

crash: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.redis_server
	@$(BIN)/python -m tests.harness.crash tests/fixtures/crash examples

ROUNDS ?= 20
failover: databases
	@$(BIN)/python -m tests.harness.redis_server
	@$(BIN)/python -m tests.harness.failover $(ROUNDS) $(SEED)

workers: databases
	@$(BIN)/python -m tests.harness.redis_server
	@$(BIN)/python -m tests.harness.workers $(or $(TURNS),300) $(SEED)

PLACES ?= worker server alone
deaths: databases
	@$(BIN)/python -m ragflow_lg.checkpoints.redis.redis_server
	@$(BIN)/python -m tests.harness.deaths --places $(PLACES) $(if $(SCENES),--scenes $(SCENES))

COMMIT ?= HEAD
upgrade: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.redis_server
	@$(BIN)/python -m tests.harness.upgrade $(COMMIT)

noisy: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.redis_server
	@$(BIN)/python -m tests.harness.noisy $(ATTACKS)

# Tests with a number: `make test` runs few repetitions of these.
MUTATIONS ?= 5000
REGIONS ?= 300
STOPS ?= 50
poisoned-rows: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.redis_server
	MUTATIONS=$(MUTATIONS) SEED=$(SEED) $(PYTEST) --timeout 0 tests/checkpoints/test_poisoned_rows.py

eject: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.ejected examples $(DIR)/agent --random $(CANVASES) --packages .cache/ejected

regions: $(VENV)/.ok
	REGIONS=$(REGIONS) $(PYTEST) -n $(WORKERS) --timeout 0 tests/test_regions.py

takeovers: $(VENV)/.ok
	STOPS=$(STOPS) $(PYTEST) -n $(WORKERS) --timeout 0 tests/test_takeovers.py

properties: $(VENV)/.ok
	EXAMPLES=$(EXAMPLES) $(PYTEST) -n $(WORKERS) --timeout 0 -m 'hypothesis or generated'

corpus: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.corpus $(DIR)

# What each stage makes of real canvases: upgrade, check, run, DSL v2, needs, eject; the findings by code.
corpus-table: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.corpus_table $(DIR)

# The sources, tests and recorded runs of the tools with a service.
tools: $(VENV)/.ok sandboxes
	@$(BIN)/python -m tests.harness.tool_table

templates: $(VENV)/.ok sandboxes
	@$(BIN)/python -m tests.harness.templates $(DIR)

STUDIO_DIRS ?= examples tests/fixtures/canvas/agent
studio: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.studio $(STUDIO_DIRS)

schema: $(VENV)/.ok
	$(BIN)/ragflow-lg schema -o docs/canvas.schema.json
	$(BIN)/ragflow-lg schema --dsl v2 -o docs/canvas_v2.schema.json

$(VENV)/.run: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with what running a canvas needs; this takes half a minute, once."
	@$(PY) .ci/set_up.py $(FRESH) $(VENV)
	@touch $@

$(VENV)/.serve: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with what the server needs; this takes half a minute, once."
	@$(PY) .ci/set_up.py $(FRESH) $(VENV) all
	@touch $@

$(VENV)/.ok: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with all extras and the development tools; this takes a minute or two, once."
	@$(PY) .ci/set_up.py $(FRESH) $(VENV) dev
	@$(BIN)/python -m compileall -q ragflow_lg checkpoints dsl_compiler server # the first command is quick as well
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
