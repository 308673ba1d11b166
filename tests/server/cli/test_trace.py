import asyncio
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.services.sessions import RunRecord
from tests.server.cli.command import ROOT, invoke

CALL: dict[str, Any] = {"path": "Guide-->Fact_Finder", "tool_name": "look_0", "arguments": {"q": "x"}}
CALL["elapsed_time"] = 0.5
TRACE: list[dict[str, Any]] = [
    {
        "component_id": "Agent:Guide",
        "trace": [
            {**CALL, "result": "R\x1b[2J"},
            {**CALL, "title": "Handbook", "path": "-->Inner", "result": {"n": 1}, "is_replayed": True},
        ],
    }
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/s.db"

    async def fill() -> None:
        async with open_store(url) as store:
            for number, session in enumerate(("anna", "anna", "anna", "ben")):
                record = RunRecord(f"{number}aa", session, started_ms=number * 1000, status="succeeded")
                await store.runs.put(record)
                if number in (0, 2):
                    await store.traces.put(record, TRACE)

    asyncio.run(fill())
    return url


def test_all_runs_of_a_session_oldest_first(url: str) -> None:
    result = invoke("sessions", "trace", "anna", "--checkpoint", url)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "0aa  1970-01-01 00:00:00 UTC  succeeded",
        '  Guide-->Fact_Finder: look_0(q="x")  0.50 s',
        "    R [2J",
        '  Agent:Guide-->Inner: Handbook(q="x")  0.50 s  (stored result)',
        '    {"n": 1}',
        "2aa  1970-01-01 00:00:02 UTC  succeeded",
        *result.stdout.splitlines()[1:5],
    ]


def test_a_session_without_calls_and_a_missing_one(url: str) -> None:
    result = invoke("sessions", "trace", "ben", "--checkpoint", url)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no agent has called a tool" in result.stderr
    assert invoke("sessions", "trace", "anna", "--checkpoint", url, "--run", "9").exit_code == 2
    assert isinstance(invoke("sessions", "trace", "nobody", "--checkpoint", url).exception, CheckpointError)


def test_a_page_is_the_whole_session_and_needs_its_canvas(url: str, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    assert invoke("sessions", "trace", "anna", "--checkpoint", url, "--html", file, "--json").exit_code == 2
    assert isinstance(
        invoke("sessions", "trace", "nobody", "--checkpoint", url, "--html", file).exception, CheckpointError
    )
    canvas = ROOT / "examples" / "loop.json"
    assert invoke("run", canvas, "--session", "carl", "--checkpoint", url, "--model", "demo").exit_code == 0
    written = invoke("sessions", "trace", "carl", "--checkpoint", url, "--html", file)
    assert (written.exit_code, written.stdout) == (0, "")
    assert f"{file.stat().st_size:,} bytes" in written.stderr
    assert "<title>loop</title>" in file.read_text("utf-8")
