"""Print a table of the tools with a service: ``python -m tests.campaigns tools [FOLDER]``.

A row has the tool, the sources of its service's stub, the number of its tests, and a run of an agent that uses it. The
run is recorded with the stub, and played again from the recording without it. FOLDER keeps the recordings.
"""

import asyncio
import inspect
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.code.bubblewrap import Bubblewrap
from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.code import CodeSandbox, NoSandbox
from ragflow_lg.services.services import Services
from ragflow_lg.services.tool_policies import CrawlerRules, ToolPolicies
from tests.fakes import smtp_server
from tests.fakes.agents import tool_calls
from tests.fakes.canvas import node
from tests.fakes.databases import SHOP, execute, new_database, open_databases
from tests.fakes.recordings import play, record
from tests.fakes.sandbox_service import NamedArtifacts
from tests.fakes.services import CountedIds, FixedClock, NamedFiles, OneModel, Reply, ScriptedModel, fake_services
from tests.harness import bubblewrap_package
from tests.ragflow_lg.tools.contracts import CONTRACTS, Contract, service_of
from tests.ragflow_lg.tools.test_email import mailer

TESTS = Path(__file__).parents[1] / "ragflow_lg"
ADAPTERS = {"Email": "mail", "ExeSQL": "sql", "CodeExec": "code"}
"""The folders with further tests of a tool."""
ANSWER = "It is so."
_LINK = re.compile(r"https?://[^\s,;)`]+[^\s,;)`.]|tests/[\w/]+\.py")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Case:
    """A tool, the text with the sources of its stub, and a call of it."""

    name: str
    function: str
    about: str
    services: Callable[[], AbstractAsyncContextManager[tuple[dict[str, Any], Services]]]
    """Yields the arguments of the call, and services that lead to the stub."""
    params: dict[str, Any]
    needs: str = ""
    """Why it cannot be played here."""


def _of_contract(contract: Contract) -> Case:
    @asynccontextmanager
    async def services() -> AsyncGenerator[tuple[dict[str, Any], Services]]:
        rules = CrawlerRules(False, user_agent="Acme/1")
        async with service_of(contract, contract.stub(), crawler=rules) as (host, found):
            yield contract.arguments(host), found

    about = inspect.getmodule(contract.stub)
    assert about is not None
    assert contract.spec.tool is not None
    return Case(contract.name, contract.spec.tool.function, about.__doc__ or "", services, contract.params)


@asynccontextmanager
async def _mail() -> AsyncGenerator[tuple[dict[str, Any], Services]]:
    async with smtp_server.smtp_server() as server:
        yield {"to_email": "a@example.com", "subject": "S", "content": "<p>x</p>"}, fake_services(mailer=mailer(server))


@asynccontextmanager
async def _shop() -> AsyncGenerator[tuple[dict[str, Any], Services]]:
    with tempfile.TemporaryDirectory() as folder, new_database("sqlite", Path(folder)) as account:
        execute(account, SHOP)
        databases = open_databases(account)
        yield {"sql": "SELECT name FROM goods"}, fake_services(databases=databases)
        await databases.aclose()


@asynccontextmanager
async def _sandbox() -> AsyncGenerator[tuple[dict[str, Any], Services]]:
    arguments = {"lang": "python", "script": "def main():\n    return 6 * 7"}
    code = Bubblewrap(bubblewrap_package.find()[0])
    yield arguments, fake_services(code=code, artifacts=NamedArtifacts())


_NUMBER = {"result": {"type": "Number", "value": None}}


CASES = [
    *map(_of_contract, CONTRACTS),
    Case("Email", "email", smtp_server.__doc__ or "", _mail, {"server": "office"}),
    Case("ExeSQL", "execute_sql", "real databases: tests/harness/database_servers.py", _shop, {"connection": "reader"}),
    Case(
        "CodeExec",
        "execute_code",
        "real sandboxes: tests/harness/bubblewrap_package.py, tests/harness/pyodide_package.py",
        _sandbox,
        {"outputs": _NUMBER},
        bubblewrap_package.find()[1],
    ),
]


async def play_case(case: Case, file: Path) -> str:
    """Record and replay a run of an agent that uses the tool; return what was seen."""
    if case.needs:
        return f"not played: {case.needs}"
    entry = {"component_name": case.name, "name": "Tool", "params": case.params}
    agent = {"llm_id": "m@Test", "prompts": "{sys.query}", "tools": [entry], "cite": False}
    canvas = {"a": node("Agent", agent, ["out"]), "out": node("Message", {"content": ["{a@content}"]})}
    code: CodeSandbox = NoSandbox()
    async with case.services() as (arguments, services):
        model = ScriptedModel(replies=[tool_calls((f"{case.function}_0", arguments)), Reply(ANSWER)])
        code = services.code  # programs are not recorded, but run again
        run, events = await record(file, canvas, replace(services, models=OneModel(model)))
    tape = Player(file, Redactor())
    others: dict[str, Any] = {"code": code, "artifacts": NamedArtifacts()}
    services = tape.services(NamedFiles(), FixedClock(), CountedIds(), ToolPolicies(), **others)
    again, replayed = await play(canvas, services, {"query": "q"})
    (result,) = [message["content"] for message in model.requests[-1][1].messages if message["role"] == "tool"]
    is_same = replayed == events and not tape.problems and tape.unused == 0
    lines = len(file.read_text("utf-8").splitlines())
    seen = " ".join(str(result).split())[:60].replace("|", "\\|")
    played = "played again" if is_same and again.status == run.status else f"differs: {again.error}"
    return f"{run.status}, {lines} lines, {played}: {seen}"


class _Collector:
    """A pytest plugin that collects the names of tests."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names = [item.nodeid for item in session.items]


def count_tests(names: Sequence[str], tool: str) -> int:
    """Return how many tests belong to a tool: those in its file and folder, and those of every tool with its name."""
    file = f"test_{'_'.join(_CAMEL.split(tool)).lower()}.py"
    ours = re.compile(rf"/{re.escape(file)}::|\[(?:[^\]]*-)?{tool}(?![A-Za-z])")
    folder = f"adapters/{ADAPTERS.get(tool)}/"
    return sum(folder in name or ours.search(name) is not None for name in names)


def main() -> int:
    """Run from the command line."""
    collector = _Collector()
    folders = [str(TESTS / name) for name in ("tools", *(f"adapters/{adapter}" for adapter in ADAPTERS.values()))]
    with redirect_stdout(StringIO()):
        pytest.main(["--collect-only", "--assert=plain", "-n", "0", *folders], plugins=[collector])
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sys.stdout.write(
            "| tool | sources of the stub | tests | recorded run of an agent |\n| --- | --- | --- | --- |\n"
        )
        for case in CASES:
            seen = asyncio.run(play_case(case, folder / f"{case.name}.jsonl"))
            failed += "played again" not in seen
            cells = (
                case.name,
                ", ".join(_LINK.findall(case.about)),
                str(count_tests(collector.names, case.name)),
                seen,
            )
            sys.stdout.write(f"| {' | '.join(cells)} |\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
