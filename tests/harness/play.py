"""Execution of a conformance case by our engine."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from ragflow_lg.adapters.http.address_guard import resolve_host
from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.knowledge import DatasetSearch
from ragflow_lg.services.memories import MemorySearch
from ragflow_lg.services.reports import Reports
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.http_server import HttpServer, Received, Route
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.memories import FakeMemories
from tests.fakes.sandbox_service import NamedArtifacts, SandboxService
from tests.fakes.services import NamedFiles, OneModel, Reply, ScriptedModel, fake_services
from tests.harness.cases import Case
from tests.harness.frames import apply_resets
from tests.harness.scripted_tools import ScriptedServer, ToolScripts, scripted_tool
from tests.stores import OpenStore, store_opener

STUB_HOST = "stub.test"
REAL_TOOLS = ("Retrieval", "CodeExec")
"""The tools that are not scripted. They ask the datasets and the sandbox service of the case."""

ERROR_MARK = "**ERROR**"
"""The mark of a failed provider call in a recorded script. An adapter raises instead."""


@dataclass
class TurnResult:
    """The result of one turn."""

    frames: list[dict[str, Any]]
    answer: str
    """The answer of the run; the frames have to contain the same text."""
    error: str | None
    state: dict[str, Any]
    model: ScriptedModel
    plan: Plan
    received: list[Received]
    tool_calls: list[tuple[str, dict[str, Any]]]
    trace: list[dict[str, Any]]
    searches: list[DatasetSearch]
    sandbox_calls: list[dict[str, Any]]
    memory_searches: list[MemorySearch]


class BeginFiles(NamedFiles):
    """Files with the recordings' contents: ``[file NAME]`` for a form field, ``[parsed NAME]`` for a request."""

    def __init__(self) -> None:
        self.is_request = True

    async def read(self, files: Any) -> list[str]:
        parsed = await super().read(files)
        return parsed if self.is_request else [text.replace("[parsed ", "[file ") for text in parsed]


async def play(case: Case, reopen: OpenStore | None = None) -> list[TurnResult]:
    """Play all turns of a session. With ``reopen`` each turn opens the store again, as a new process does.

    Raises:
        CompileError: if the canvas is refused.
    """
    scripts = ToolScripts()
    scripts.play_here()
    canvas = compile_canvas(case.data["dsl"], scripted_catalog())
    reopen = reopen or store_opener("memory://")
    results: list[TurnResult] = []
    kb = case.data.get("kb", {})
    knowledge, memories = FakeKnowledge.of_case(kb), FakeMemories.of_case(kb)
    sandbox = SandboxService()
    async with start_stub(case) as (server, http), sandbox.running():
        integrations = open_integrations(sandbox.port)
        for turn in case.data["turns"][: len(case.expected)]:
            scripts.scripts = {
                name: [dict(e) for e in entries] for name, entries in turn.get("tool_script", {}).items()
            }
            model = build_model(turn)
            files = BeginFiles()
            files.is_request = bool(turn.get("files"))
            servers = {id_: ScriptedServer(scripts) for id_ in case.servers}
            services = fake_services(
                models=OneModel(model),
                http=http,
                files=files,
                servers=servers,
                knowledge=knowledge,
                memories=memories,
                integrations=integrations,
                artifacts=NamedArtifacts(),
            )
            sandbox.play(turn.get("sandbox_script", ()), turn.get("sandbox_health", 200))
            limit = 1 if turn.get("cancel_after") else 256
            scripts.calls.clear()
            async with reopen() as store:
                if turn.get("cancel_before_start"):
                    await store.cancels.request("session")
                fields, trace = await _play_turn(Runner(canvas, services, store=store, event_limit=limit), turn)
            received, calls, searches = list(server.received), list(scripts.calls), list(knowledge.searches)
            remembered = list(memories.searches)
            result = TurnResult(
                *fields, model, canvas.plan, received, calls, trace, searches, sandbox.calls, remembered
            )
            results.append(result)
            server.received.clear()
            knowledge.searches.clear()
            memories.searches.clear()
    return results


def open_integrations(port: int) -> dict[Any, Any]:
    """Return the services of the integrations whose folders are there. The sandbox service listens on the port."""
    found = dict[Any, Any]()
    with suppress(ModuleNotFoundError):
        from ragflow_lg.integrations.code.http_sandbox import HttpSandbox
        from ragflow_lg.integrations.code.programs import CodeSandbox

        http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
        found[CodeSandbox] = HttpSandbox(f"http://127.0.0.1:{port}", http)
    with suppress(ModuleNotFoundError):
        from ragflow_lg.integrations.documents.report_settings import ReportSettings
        from ragflow_lg.integrations.documents.worker_reports import WorkerReports

        found[Reports] = WorkerReports(ReportSettings(system_fonts=False), NoWorkers())
    return found


async def _play_turn(
    runner: Runner, turn: Mapping[str, Any]
) -> tuple[tuple[list[dict[str, Any]], str, str | None, dict[str, Any]], list[dict[str, Any]]]:
    """Play one turn. Return (frames, answer, error, state), and the calls of agents."""
    request: dict[str, Any] = {key: turn[key] for key in ("query", "inputs", "files") if key in turn}
    request["user_id"] = turn.get("user_id", "user-1")
    if "webhook_payload" in turn:
        request["payload"] = turn["webhook_payload"]
    run = runner.start("session", request, ignores_unknown=True)  # pyright: ignore[reportArgumentType] - keys of a TypedDict
    frames: list[dict[str, Any]] = []
    cancel_after = turn.get("cancel_after")
    error: str | None = None
    try:
        async for event in run:
            frames.append({"event": event.event, **event.data()})
            if cancel_after and all(frames[-1].get(key) == value for key, value in cancel_after.items()):
                run.cancel()
    except RagflowLgError as failure:
        error = str(failure)
    return (apply_resets(frames), run.answer, error or run.error, await runner.state("session")), run.trace


def split_reply(text: str) -> list[str]:
    """Return the pieces in which the recording model streams a reply."""
    return [text[i : i + ScriptedModel.piece_chars] for i in range(0, len(text), ScriptedModel.piece_chars)]


def build_model(turn: Mapping[str, Any]) -> ScriptedModel:
    replies: list[Reply] = []
    for entry in turn.get("llm_script", []):
        error = entry.get("raise", "")
        chunks: list[str] | None = entry.get("chunks")
        failing = next((i for i, chunk in enumerate(chunks or [entry.get("reply", "")]) if ERROR_MARK in chunk), None)
        if failing is not None:
            error = (chunks or [entry.get("reply", "")])[failing]
            chunks = (chunks or [])[:failing]
        text = entry.get("reply", "")
        if "break_after" in entry:
            chunks = (chunks or split_reply(text))[: entry["break_after"]]
            error = entry.get("break_error") or "The stream broke."
        replies.append(
            Reply(
                text,
                chunks,
                entry.get("match", ""),
                entry.get("repeat", False),
                error,
                entry.get("tool_calls", ()),
                entry.get("reasoning", ""),
            )
        )
    return ScriptedModel(replies)


@cache
def scripted_catalog() -> Registry:
    """Return the components. All tools without a model play the scripts of the current context."""
    catalog = load_catalog()
    for spec in [
        spec for spec in catalog if spec.tool is not None and spec.kind == "plain" and spec.name not in REAL_TOOLS
    ]:
        catalog.add(scripted_tool(spec), replace=True)
    return catalog


@asynccontextmanager
async def start_stub(case: Case) -> AsyncGenerator[tuple[HttpServer, GuardedHttpClient]]:
    """Serve the case's HTTP routes under the host name that its canvas uses."""
    routes = [
        Route(
            r["path"],
            r.get("method", ""),
            r.get("status", 200),
            r.get("headers", {}),
            r.get("body", ""),
            r.get("delay_ms", 0),
        )
        for r in case.data.get("http", [])
    ]
    async with HttpServer(routes).running() as server:

        async def resolve(host: str, port: int) -> Any:
            return await (server.resolve(host, port) if host == STUB_HOST else resolve_host(host, port))

        client = GuardedHttpClient(HttpSettings(allow=(STUB_HOST,)), resolve=resolve)
        try:
            yield server, client
        finally:
            await client.aclose()
