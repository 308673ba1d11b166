"""Run templates of agents with the mock model server and real tools: ``python -m tests.campaigns templates DIR``.

``DIR`` has real canvases and the list ``index.json``, as for ``tests.harness.corpus``. The newest version of each
template is checked and played with the rules in ``tests/fixtures/templates``: a file for each template, with the rules
of ``ragflow-lg mock-llm``, what the user enters, and what has to come out. Tools call stubs of their services through
the real client, ExeSQL reads an SQLite file, CodeExec runs programs in the sandbox of this machine. Prints a line for
each template, with what stopped it.
"""

import asyncio
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from langgraph.checkpoint.memory import InMemorySaver
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.lower import lower_plan
from ragflow_lg.integrations.browser.browser_settings import BrowserSection
from ragflow_lg.integrations.browser.browsers import Browsers
from ragflow_lg.integrations.browser.chromium_browser import ChromiumBrowsers
from ragflow_lg.integrations.code.code_settings import CodeSection
from ragflow_lg.integrations.code.programs import CodeSandbox
from ragflow_lg.integrations.code.sandbox_choice import find_sandbox
from ragflow_lg.integrations.mock_model.rules import Rule, Rules
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.wire.wire_events import Message
from ragflow_lg.services.databases import Databases
from ragflow_lg.services.services import Services
from ragflow_lg.services.tool_policies import ServerAnswer, ToolSettings
from ragflow_lg.services.workers import NoWorkers
from tests.conftest import FIXTURES
from tests.fakes.databases import SHOP, execute, new_database, open_databases
from tests.fakes.http_server import HttpServer, Route
from tests.fakes.mcp_servers import FakeServer
from tests.fakes.mock_llm import MockLLM
from tests.fakes.sandbox_service import NamedArtifacts
from tests.fakes.services import fake_services
from tests.harness import bubblewrap_package
from tests.harness.corpus import AnyKnowledge, complete_params, sample_answers
from tests.integrations.search.cases import TOOLS

RULES = FIXTURES / "templates"
LIMIT_S = 60
ERAS = ("agent", "graph_only")
SITE = "search.example"
RESULTS = "<title>Results</title><ol><li><a href=/1>Agents in 2026</a><li><a href=/2>Small models</a></ol>"
"""The page `/results` of the site that Browser opens."""


class Script(BaseModel):
    """How a template is played. The file's name is that of the template, without the hash of its version."""

    model_config = ConfigDict(extra="forbid")

    query: str = "hello"
    inputs: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The form of Begin; other fields have sample values."""
    files: list[Any] = Field(default_factory=list[Any])
    answers: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """The answers to later forms, in order."""
    shows: str = ""
    """A part of the text that the user sees."""
    calls: list[str] = Field(default_factory=list[str])
    """The names of the tools that agents call, without their numbers, sorted."""
    servers: dict[str, str] = Field(default_factory=dict[str, str])
    """MCP servers by id, with what their tools answer."""
    stops: str = ""
    """The code of the diagnostic, or a part of the error, that stops the template; "" if it runs to its end."""
    reason: str = ""
    """Why nothing can be done about what stops it."""
    rules: list[Rule] = Field(default_factory=list[Rule])


class Verdict(Struct, frozen=True):
    """What became of a template."""

    name: str
    has_passed: bool
    text: str


class Played(Struct):
    """What a session has shown."""

    status: str = ""
    error: str = ""
    shown: str = ""
    forms: int = 0
    calls: list[str] = []
    requests: int = 0


def find_templates(folder: Path) -> list[Path]:
    """Return the newest version of each canvas of agents in a folder."""
    newest: dict[str, Mapping[str, Any]] = {}
    for row in json.loads((folder / "index.json").read_text(encoding="utf-8")):
        known = newest.get(row["path"])
        if row["era"] in ERAS and (known is None or row["date"] > known["date"]):
            newest[row["path"]] = row
    return sorted((folder / row["file"] for row in newest.values()), key=lambda path: path.name)


def read_script(template: Path) -> Script | None:
    """Return how a template is played; None if there are no rules for it."""
    path = RULES / f"{template.name.partition('@')[0]}.toml"
    return Script.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def judge(template: Path) -> Verdict:
    """Check and play one template."""
    name = template.name.partition("@")[0]
    script = read_script(template)
    if script is None:
        return Verdict(name, False, f"has no rules: write {RULES.name}/{name}.toml")
    document = complete_params(json.loads(template.read_bytes()))
    codes = sorted({d.code for d in check_canvas(template.read_bytes(), load_catalog())[1] if d.severity == "error"})
    if codes:
        return Verdict(name, script.stops in codes, _with_reason(f"refused: {', '.join(codes)}", script))
    try:
        played = asyncio.run(asyncio.wait_for(_play(document, script), LIMIT_S))
    except RagflowLgError as error:
        played = Played("failed", str(error))
    except TimeoutError:
        played = Played("failed", f"it takes longer than {LIMIT_S} s")
    return Verdict(name, _is_expected(script, played), _with_reason(_describe(played), script))


def _with_reason(text: str, script: Script) -> str:
    return f"{text.rstrip('.')}: {script.reason}" if script.reason else text


def _is_expected(script: Script, played: Played) -> bool:
    if script.stops:
        return script.stops in played.error
    return played.status == "succeeded" and script.shows in played.shown and script.calls == sorted(played.calls)


def _describe(played: Played) -> str:
    if played.status not in ("succeeded", "waiting"):
        return f"{played.status}: {played.error}"
    end = "ended" if played.status == "succeeded" else "waits for its form"
    parts = [f"{played.requests} model calls"]
    if played.forms:
        parts.append(f"{played.forms} forms answered")
    if played.calls:
        parts.append(f"tools: {', '.join(played.calls)}")
    return f"{end}; {'; '.join(parts)}"


async def _play(document: Any, script: Script) -> Played:
    played = Played()
    plan, _ = check_canvas(document, load_catalog())
    assert plan is not None
    async with MockLLM(rules=Rules(rules=script.rules)) as model, _services(model, script) as services:
        runner = Runner(lower_plan(plan), services, saver=InMemorySaver())
        inputs = {**dict(sample_answers(plan.form)), **{name: {"value": v} for name, v in script.inputs.items()}}
        run = runner.start("s", {"query": script.query, "inputs": inputs, "files": script.files})
        answers = iter(script.answers)
        while True:
            async for event in run:
                played.shown += event.content if isinstance(event, Message) else ""
            played.calls += _called_tools(run.trace)
            pauses = await runner.pauses("s")
            answer = next(answers, None)
            if run.status != "waiting" or answer is None:
                break
            fields = [field for pause in pauses for field in form_fields(pause.inputs)]
            run = runner.resume("s", {**dict(sample_answers(fields)), **answer})
            played.forms += 1
        played.status, played.error, played.requests = run.status, run.error or "", len(model.requests)
    return played


def _called_tools(trace: Sequence[Any]) -> list[str]:
    names = (step["tool_name"] for part in trace for step in part["trace"])
    return [re.sub(r"_\d+$", "", name) for name in names if name]


@asynccontextmanager
async def _services(model: MockLLM, script: Script) -> AsyncGenerator[Services]:
    """Yield services with the mock model for every model, and real clients of everything else."""
    routes = [Route(f"/{t.service}{path}", body=body) for t in TOOLS for path, body in _pages(t)]
    routes.append(Route("/results", headers={"content-type": "text/html"}, body=RESULTS))
    provider = ProviderSettings(model.base_url, "k")
    models = ConfiguredModels(ChatModelSettings(override_model="m@Mock", providers={"Mock": provider}))
    async with HttpServer(routes).running() as server:
        browser = BrowserSection(sandbox=False)  # containers of tests run as root
        host = f"127.0.0.1:{server.port}"
        http = GuardedHttpClient(HttpSettings(allow=(host,)))
        endpoints = {tool.service: f"http://{host}/{tool.service}" for tool in TOOLS}
        found = await find_sandbox(CodeSection(bubblewrap=bubblewrap_package.find()[0]), http, NoWorkers())
        with tempfile.TemporaryDirectory() as folder, new_database("sqlite", Path(folder)) as account:
            execute(account, SHOP)
            databases = open_databases(account)
            yield fake_services(
                models=models,
                http=http,
                tools=ToolSettings(endpoints, dict.fromkeys(endpoints, "key")),
                knowledge=AnyKnowledge(),
                servers={server: FakeServer(ServerAnswer((text,))) for server, text in script.servers.items()},
                integrations={
                    Browsers: ChromiumBrowsers(browser, [SITE], resolve=server.resolve),
                    CodeSandbox: found.sandbox,
                    Databases: databases,
                },
                artifacts=NamedArtifacts(),
            )
        await models.aclose()
        await http.aclose()


def _pages(tool: Any) -> list[tuple[str, str]]:
    """Return the paths and bodies of a service's stub."""
    pages = [(path, body) for path, body in cast("dict[str, str]", tool.first_pages).items()]
    return [*pages, (tool.path, tool.body), *([("", tool.body)] if tool.path == "/" else [])]


def main() -> int:
    """Run from the command line."""
    if len(sys.argv) != 2 or not Path(sys.argv[1], "index.json").is_file():
        sys.stderr.write("Usage: python -m tests.campaigns templates DIR\n")
        return 2
    verdicts = [judge(template) for template in find_templates(Path(sys.argv[1]))]
    for verdict in verdicts:
        sys.stdout.write(f"{'ok  ' if verdict.has_passed else 'FAIL'}  {verdict.name}  {verdict.text}\n")
    failed = sum(not verdict.has_passed for verdict in verdicts)
    sys.stdout.write(f"{len(verdicts) - failed} passed, {failed} failed\n")
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
