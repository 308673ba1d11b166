"""Every place that parses JSON or literals: what it reads is our own, or limits that are named here apply."""

import ast
from collections.abc import Mapping
from functools import cache

import pytest

from tests.architecture.sources import ROOT, sources

pytestmark = pytest.mark.slow

PARSERS = {
    *("json.loads", "json.load", "json.JSONDecoder", "orjson.loads", "ast.literal_eval"),
    *("msgspec.json.decode", "msgspec.json.Decoder", "msgspec.msgpack.decode"),
}
METHODS = {"model_validate_json", "validate_json", "raw_decode"}

ONE_WAY = "ragflow_lg/base/json_scanner.py"

IN_WORKERS = {
    "ragflow_lg/integrations/documents/markdown_document.py": "tasks read what Pandoc makes of a text",
    "ragflow_lg/adapters/knowledge/file_text.py": "tasks read uploaded files",
    "ragflow_lg/components/data_operations.py": "the task of literal_eval",
    "ragflow_lg/dsl/code_contract.py": "the task that reads what a program has printed",
    "ragflow_lg/models/structured_answer.py": "tasks read answers of models; the schema is from the canvas",
}
COUNTED_BEFORE = {
    "dsl_compiler/json_spans.py": "canvases, which are limited before",
    "dsl_compiler/source.py": "canvases, which are limited before",
    "server/agents/canvas_file_agents.py": "canvases, which are limited before",
    "ragflow_lg/integrations/mcp/mcp_session.py": "requests of our own client",
    "ragflow_lg/adapters/ragflow_api/api_client.py": "answers of RAGFlow, counted before",
    "ragflow_lg/agents/call_arguments.py": "doubled arguments, of a bounded number of characters",
    "ragflow_lg/components/invoke.py": "variables of Invoke, counted before",
    "ragflow_lg/models/metadata_filter.py": "literals of a bounded number of characters",
    "server/http/ragflow/older_routes.py": "canvases in bodies, which are limited before, and stored ones",
    "server/http/ragflow/dataset_routes.py": "a query parameter of a bounded length",
    "server/http/shared/request_bodies.py": "bodies, whose bytes are counted while they arrive",
    "server/http/webhooks/webhook_routes.py": "stored events, and templates of canvases",
}
OUR_OWN = (
    *("checkpoints/", "server/cli/", "server/streaming/", "server/settings/"),
    *(f"ragflow_lg/integrations/{name}/" for name in ("migration", "mock_model", "studio")),
    *("dsl_compiler/ragflow_1/", "dsl_compiler/schema.py"),
    *("ragflow_lg/integrations/elasticsearch/connection.py", "ragflow_lg/integrations/elasticsearch/term_weights.py"),
    *("ragflow_lg/integrations/knowledge/knowledge_file.py", "ragflow_lg/adapters/recording/"),
    "ragflow_lg/integrations/a2a/agent_parts.py",
    *("ragflow_lg/adapters/system_services.py", "ragflow_lg/adapters/workers/worker_process.py"),
    *("ragflow_lg/integrations/documents/worker_reports.py", "ragflow_lg/models/classification.py"),
    *("ragflow_lg/base/diagnostics.py", "ragflow_lg/base/extras.py", "ragflow_lg/base/values.py"),
    *("server/agents/agent_versions.py", "server/agents/drafts.py", "server/assembly/recordings.py"),
    "server/assembly/page_settings.py",
    *("server/database/tables.py", "server/database/turn_writer.py", "server/http/shared/responses.py"),
    *("server/observability/logs.py", "server/page/run_file.py", "server/runs/schedule_runs.py"),
    "server/runs/session_rows.py",
)
"""Files and folders that read what the project, its operator or its developer has written."""

TASKS: Mapping[str, str] = {
    "ragflow_lg/integrations/code/http_sandbox.py": "a sandbox service",
    "ragflow_lg/integrations/code/sandbox_process.py": "a program of CodeExec: the value that `main` returns",
    "ragflow_lg/adapters/knowledge/rerankers.py": "a rerank model",
    "ragflow_lg/integrations/speech/endpoint_speech.py": "a model that transcribes",
    "ragflow_lg/component/service_client.py": "search services and other tools: an answer",
    "ragflow_lg/integrations/code/sandbox_app.py": "clients of `ragflow-lg sandbox serve`",
    "ragflow_lg/adapters/ragflow_api/api_client.py": "RAGFlow's API, for pulled agents and remote datasets",
    "server/http/mcp/mcp_endpoint.py": "MCP clients, on `/mcp`",
    "ragflow_lg/integrations/browser/browser.py": "a model or a user, in a text that a node parses",
}
"""Files that read JSON of others, with their row in docs/limits.md."""


def _name(node: ast.expr) -> str:
    return f"{_name(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@cache
def parsing_files() -> dict[str, set[str]]:
    """Return the parsers that each file names, called or passed on."""
    found: dict[str, set[str]] = {}
    for source in sources():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Attribute):
                continue
            name = _name(node)
            if name in (*PARSERS, "response.json", "answer.json") or node.attr in METHODS:
                found.setdefault(str(source), set()).add(name)
    return found


def test_whoever_parses_json_of_others_does_it_in_the_one_way() -> None:
    known = {ONE_WAY, *IN_WORKERS, *COUNTED_BEFORE}
    unknown = {file: names for file, names in parsing_files().items() if file not in known}
    unknown = {file: names for file, names in unknown.items() if not file.startswith(OUR_OWN)}
    assert unknown == {}, "use parse_foreign_json or read_foreign_json, or say here why not"


def test_every_exception_is_still_one() -> None:
    files = set(parsing_files())
    assert {*IN_WORKERS, *COUNTED_BEFORE} <= files
    assert [place for place in OUR_OWN if not any(file.startswith(place) for file in files)] == []


def test_nobody_imports_a_parser_by_its_name() -> None:
    modules = {"json", "orjson", "ast", "msgspec.json", "msgspec.msgpack"}
    names = {parser.rpartition(".")[2] for parser in PARSERS}
    offenders = [
        str(source)
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in modules
        and not names.isdisjoint(alias.name for alias in node.names)
    ]
    assert offenders == []


def test_the_limits_of_everybody_who_sends_json_are_documented() -> None:
    text = (ROOT / "docs/limits.md").read_text("utf-8")
    assert sorted({row for row in TASKS.values() if f"| {row} |" not in text}) == []
    readers = ("foreign_json", "parse_reply", "read_vectors", "check_json", "request_bodies")
    modules = {str(source): source.text for source in sources()}
    assert [file for file in TASKS if not any(reader in modules[file] for reader in readers)] == []
