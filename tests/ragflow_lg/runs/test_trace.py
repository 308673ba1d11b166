import asyncio
from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import AgentRecord, AgentRecordKind
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.trace import MAX_CHARS, MAX_ENTRIES, TraceLog, TraceWriter
from ragflow_lg.services.sessions import RunRecord, Trace
from tests.fakes.canvas import CATALOG, canvas, node

PLAN = compile_canvas(canvas({"a": node("LLM", {"prompts": "x"})}), CATALOG).plan
CALL: dict[str, Any] = {"tool": "look_0", "title": "Look", "arguments": {"q": 1}, "seconds": 0.5}


def record(
    kind: AgentRecordKind, node: str = "a", path: str = "", is_replayed: bool = False, **details: Any
) -> AgentRecord:
    return AgentRecord(NodeId(node), path or node, 1, "", kind, 0.0, details, is_replayed)


def entry(**more: Any) -> dict[str, Any]:
    shown = {"path": "", "tool_name": "look_0", "title": "Look", "arguments": {"q": 1}, "elapsed_time": 0.5, **more}
    return {name: value for name, value in shown.items() if value is not None}


def entries(trace: Trace) -> list[dict[str, Any]]:
    """Return the entries of all blocks."""
    blocks: list[Any] = [*trace]
    return [entry for block in blocks for entry in block["trace"]]


def test_entries_of_one_component_share_a_block() -> None:
    log = TraceLog(PLAN)
    log.add(record("tool_finished", path="a-->inner", result="R", **CALL))
    log.add(record("tool_failed", error="E", was_called=True, **CALL))
    log.add(record("note", "b", title="gen_citations", result="A", seconds=0.5))
    log.add(record("tool_finished", is_replayed=True, result="R", **CALL))
    citation: dict[str, Any] = {"tool_name": "gen_citations", "title": None, "arguments": {}}
    assert log.blocks == [
        {"component_id": "a", "trace": [entry(path="-->inner", result="R"), entry(result="E")]},
        {"component_id": "b", "trace": [entry(result="A", **citation)]},
        {"component_id": "a", "trace": [entry(result="R", is_replayed=True)]},
    ]


def test_the_oldest_entries_are_dropped() -> None:
    log = TraceLog(PLAN)
    for number in range(MAX_ENTRIES + 5):
        log.add(record("tool_finished", result=number, **CALL))
    assert [entry["result"] for entry in entries(log.blocks)][:2] == [5, 6]
    for number in range(100):
        log.add(record("tool_finished", result=str(number) * 20_000, **CALL))
    assert sum(len(entry["result"]) for entry in entries(log.blocks)) <= MAX_CHARS
    assert entries(log.blocks)[-1]["result"].startswith("99")


class FullTraces:
    """A store that notes the number of entries of each write, and fails."""

    def __init__(self) -> None:
        self.puts: list[int] = []

    async def put(self, record: RunRecord, trace: Trace) -> None:
        self.puts.append(len(entries(trace)))
        raise CheckpointError("The disk is full.")

    async def get(self, run_id: str) -> Trace | None:
        return None

    async def delete_session(self, session: str) -> None:
        return None


async def test_a_lost_session_is_not_written_and_a_failing_store_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store, log = FullTraces(), TraceLog(PLAN)
    writer = TraceWriter(store, RunRecord("r", "s"), log)
    log.add(record("tool_finished", result=1, **CALL))
    writer.touch()
    await writer.close(is_lost=True)
    assert store.puts == []
    store, log = FullTraces(), TraceLog(PLAN)
    writer = TraceWriter(store, RunRecord("r", "s"), log)
    for _ in range(3):
        log.add(record("tool_finished", result=1, **CALL))
        writer.touch()
        await asyncio.sleep(0)
    await writer.close()
    assert store.puts == [1]
    assert [r.getMessage() for r in caplog.records] == ["The trace of run r cannot be stored: The disk is full."]
