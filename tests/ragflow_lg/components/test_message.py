import asyncio
from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import MAX_TEXT_CHARS
from ragflow_lg.component.events import MessagePiece
from ragflow_lg.components import message as message_module
from ragflow_lg.components.message import message
from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.integrations.documents.worker_reports import WorkerReports
from ragflow_lg.services.artifacts import NoArtifacts
from ragflow_lg.services.reports import Reports
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.canvas import canvas, node, plan_of
from tests.fakes.memories import FakeMemories
from tests.fakes.run import Result, run_component
from tests.fakes.sandbox_service import NamedArtifacts
from tests.fakes.services import fake_services
from tests.harness.rows import each_row

INFO = {"doc_id": "1", "filename": "a.pdf", "mime_type": "application/pdf"}


def pieces(result: Result) -> list[tuple[int, str]]:
    return [(e.segment, e.text) for e in result.events if isinstance(e, MessagePiece)]


async def test_a_text_is_streamed_by_segment() -> None:
    result = await run_component(message, {"content": "a {a@x} b"}, outputs={"a": {"x": [1]}})
    assert pieces(result) == [(0, "a "), (1, "[1]"), (2, " b")]
    assert result.outputs == {"content": "a [1] b", "downloads": []}


async def test_thinking_stays_in_the_text_without_its_tags() -> None:
    result = await run_component(message, {"content": "{a@x}"}, outputs={"a": {"x": "<think>t</think>A"}})
    assert result.outputs["content"] == "tA"
    assert pieces(result) == [(0, "<think>t</think>A")]


async def test_downloads_and_status_are_part_of_the_end_event() -> None:
    result = await run_component(message, {"content": "see {a@x}", "status": 201}, outputs={"a": {"x": INFO}})
    assert result.outputs == {"content": "see ", "downloads": [INFO]}
    finished = result.events[-1]
    assert getattr(finished, "end", None) == {"status": 201, "downloads": [INFO]}


@each_row("content", ["a {a@x} b {a@x}{a@y}", "{{ 1 }}{a@x}{a@y}"])
async def test_a_file_is_listed_once(content: str) -> None:
    other = {**INFO, "doc_id": "2"}
    result = await run_component(message, {"content": content}, outputs={"a": {"x": INFO, "y": [INFO, other]}})
    assert result.outputs["downloads"] == [INFO, other]


@each_row("params", [{"messages": ["x"]}, {"text": "x"}, {"text": "y", "content": ["x"]}])
def test_other_names_of_the_content_are_accepted(params: dict[str, Any]) -> None:
    plan = plan_of(canvas({"m": node("Message", params)}))
    bound: Any = plan.nodes[NodeId("m")].params
    assert [str(text) for text in bound.content] == ["x"]


async def test_the_text_of_all_references_is_limited() -> None:
    outputs = {"a": {"x": "x" * (MAX_TEXT_CHARS // 2)}}
    assert (await run_component(message, {"content": "{a@x}{a@x}"}, outputs=outputs)).error is None
    result = await run_component(message, {"content": "{a@x}{a@x}!{a@x}"}, outputs=outputs)
    assert result.error == "The text would exceed 8,388,608 characters."
    assert len(pieces(result)) == 2


async def converted(output_format: str, content: str = "# A\n{a@x}", **services: Any) -> tuple[Result, NamedArtifacts]:
    artifacts, reports = NamedArtifacts(), WorkerReports(ReportSettings(system_fonts=False), NoWorkers())
    parts = {"integrations": {Reports: reports}, "artifacts": artifacts, **services}
    params = {"content": content, "output_format": output_format}
    outputs = {"a": {"x": "<think>hidden</think>shown"}}
    return await run_component(message, params, outputs=outputs, services=fake_services(**parts)), artifacts


@each_row(
    ("output_format", "format_", "start"),
    [
        ("pdf", "pdf", b"%PDF"), ("DOCX", "docx", b"PK"), ("html", "html", b"<!DOCTYPE"), ("xlsx", "xlsx", b"PK"),
        ("markdown", "markdown", b"# A\nshown"), ("odt", "markdown", b"# A\nshown"),
    ],
)  # fmt: skip
async def test_a_text_is_converted_to_a_file(output_format: str, format_: str, start: bytes) -> None:
    result, artifacts = await converted(output_format)
    attachment = {"doc_id": f"{1:032x}", "format": format_, "file_name": f"00000000.{format_}"}
    assert result.outputs["attachment"] == attachment
    assert getattr(result.events[-1], "end", None) == {"attachment": attachment}
    (stored,) = artifacts.stored
    assert stored.content.startswith(start)
    assert b"hidden" not in stored.content


@each_row("services", [{"integrations": {}}, {"artifacts": NoArtifacts()}])
async def test_a_failed_conversion_does_not_cost_the_text(services: dict[str, Any]) -> None:
    result, _ = await converted("pdf", **services)
    assert (result.error, result.outputs["content"]) == (None, "# A\nhiddenshown")
    assert "attachment" not in result.outputs


MEMORY = {"content": "Hello {a@x}", "memory_ids": ["m1", "", "gone"]}
SPOKEN = {"sys.query": "I am Anna", "sys.user_id": "u1"}


async def remember(params: dict[str, Any], memories: Any, **more: Any) -> Result:
    outputs = {"a": {"x": "<think>hm</think>Anna"}}
    services = fake_services(memories=memories)
    return await run_component(message, params, outputs=outputs, globals=SPOKEN, services=services, **more)


async def test_the_question_and_the_text_are_written_to_the_memories(caplog: pytest.LogCaptureFixture) -> None:
    memories = FakeMemories({"m1": []})
    await remember(MEMORY, memories)
    ((written, exchange),) = memories.exchanges
    assert written == ["m1", "gone"]
    assert (exchange.user, exchange.question, exchange.answer) == ("u1", "I am Anna", "Hello Anna")
    assert "unknown memories: gone" in caplog.text
    await run_component(
        message, MEMORY, outputs={"a": {"x": ""}}, services=fake_services(memories=memories, is_demo=True)
    )
    assert len(memories.exchanges) == 1


async def test_secrets_are_not_written_to_a_memory() -> None:
    memories = FakeMemories({"m1": []})
    services = fake_services(memories=memories, secrets=("correct-horse-7",))
    spoken = {**SPOKEN, "sys.query": "My key is correct-horse-7, and https://anna:hunter2222@example.com"}
    outputs = {"a": {"x": "correct-horse-7"}}
    await run_component(message, MEMORY, outputs=outputs, globals=spoken, services=services)
    ((_, exchange),) = memories.exchanges
    assert exchange.question == "My key is ***, and https://anna:***@example.com"
    assert exchange.answer == "Hello ***"


@each_row(
    ("user", "found"), [("{a@name}", "u1"), ("ben", "ben"), *((odd, "") for odd in (["a", 1], {"a": 1}, "a\0b", 3))]
)
async def test_a_canvas_may_name_the_user_of_the_memory(user: Any, found: str) -> None:
    memories = FakeMemories({"m1": []})
    assert (await remember({**MEMORY, "user_id": user}, memories)).error is None
    ((_, exchange),) = memories.exchanges
    assert exchange.user == found if found else exchange.user


class HangingMemories(FakeMemories):
    async def remember(self, memories: Any, exchange: Any) -> Any:
        await asyncio.sleep(60)


@each_row(
    ("memories", "reason"),
    [
        (FakeMemories({"m1": []}, error="the store is gone"), "the store is gone"),
        (HangingMemories(), "it took too long"),
    ],
)
async def test_a_failing_memory_costs_neither_text_nor_time(
    memories: FakeMemories, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(message_module, "MEMORY_TIMEOUT_S", 0.05)
    result = await remember(MEMORY, memories)
    assert (result.outputs["content"], result.error) == ("Hello hmAnna", None)
    assert reason in caplog.text
