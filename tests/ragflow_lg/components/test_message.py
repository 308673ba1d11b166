from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import MAX_TEXT_CHARS
from ragflow_lg.component.events import MessagePiece
from ragflow_lg.components.message import message
from tests.fakes.canvas import canvas, node, plan_of
from tests.fakes.run import Result, run_component

INFO = {"doc_id": "1", "filename": "a.pdf", "mime_type": "application/pdf"}


def pieces(result: Result) -> list[tuple[int, str]]:
    return [(e.segment, e.text) for e in result.events if isinstance(e, MessagePiece)]


async def test_a_text_is_streamed_by_segment() -> None:
    result = await run_component(message, {"content": "a {a@x} b"}, outputs={"a": {"x": [1]}})
    assert pieces(result) == [(0, "a "), (1, "[1]"), (2, " b")]
    assert result.outputs == {"content": "a [1] b", "downloads": []}


async def test_a_text_without_streaming_or_with_jinja_is_one_piece() -> None:
    outputs = {"a": {"x": [1, 2]}}
    whole = await run_component(message, {"content": "a {a@x}", "stream": False}, outputs=outputs)
    assert pieces(whole) == [(0, "a [1, 2]")]
    jinja = await run_component(message, {"content": "{% for i in {a@x} %}<{{ i }}>{% endfor %}"}, outputs=outputs)
    assert pieces(jinja) == [(0, "<1><2>")]


async def test_thinking_stays_in_the_text_without_its_tags() -> None:
    result = await run_component(message, {"content": "{a@x}"}, outputs={"a": {"x": "<think>t</think>A"}})
    assert result.outputs["content"] == "tA"
    assert pieces(result) == [(0, "<think>t</think>A")]


async def test_downloads_and_status_are_part_of_the_end_event() -> None:
    result = await run_component(message, {"content": "see {a@x}", "status": 201}, outputs={"a": {"x": INFO}})
    assert result.outputs == {"content": "see ", "downloads": [INFO]}
    finished = result.events[-1]
    assert getattr(finished, "end", None) == {"status": 201, "downloads": [INFO]}


async def test_an_unknown_component_is_an_error() -> None:
    result = await run_component(message, {"content": "a {ghost@x}"})
    assert result.error == "Can't find variable: 'ghost@x'"


async def test_alternatives_are_chosen_by_seed() -> None:
    texts = {
        (await run_component(message, {"content": ["x", "y"]}, seed=seed)).outputs["content"] for seed in range(1, 20)
    }
    assert texts == {"x", "y"}


@pytest.mark.parametrize("content", ["a {a@x} b {a@x}{a@y}", "{{ 1 }}{a@x}{a@y}"])
async def test_a_file_is_listed_once(content: str) -> None:
    other = {**INFO, "doc_id": "2"}
    result = await run_component(message, {"content": content}, outputs={"a": {"x": INFO, "y": [INFO, other]}})
    assert result.outputs["downloads"] == [INFO, other]


def test_the_former_name_of_the_content_is_accepted() -> None:
    plan = plan_of(canvas({"m": node("Message", {"messages": ["x"]})}))
    params: Any = plan.nodes[NodeId("m")].params
    assert [str(text) for text in params.content] == ["x"]


async def test_the_text_of_all_references_is_limited() -> None:
    outputs = {"a": {"x": "x" * (MAX_TEXT_CHARS // 2)}}
    assert (await run_component(message, {"content": "{a@x}{a@x}"}, outputs=outputs)).error is None
    result = await run_component(message, {"content": "{a@x}{a@x}!{a@x}"}, outputs=outputs)
    assert result.error == "The text would exceed 8,388,608 characters."
    assert len(pieces(result)) == 2
