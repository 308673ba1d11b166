from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.agents.agent_result import AgentResult
from ragflow_lg.agents.agent_tool import Outcome
from ragflow_lg.services.chat import ToolCall


def test_calls_are_listed_with_their_arguments_parsed_if_possible() -> None:
    gathered = AgentResult()
    gathered.add_call(ToolCall("1", "t", '{"a": 1}'), Outcome([1]))
    gathered.add_call(ToolCall("2", "u", "[" * 100_000), Outcome("no", is_error=True))
    assert gathered.use_tools[0] == {"name": "t", "arguments": {"a": 1}, "results": [1]}
    assert gathered.use_tools[1]["arguments"] == "[" * 100_000


def links(*files: dict[str, Any], answer: str = "") -> str:
    gathered = AgentResult()
    for file in files:
        gathered.add_call(ToolCall("1", "t", "{}"), Outcome("x", artifacts=[file]))
    return gathered.links(answer)


PNG = {"name": "a.png", "url": "/f/a.png", "mime_type": "image/png"}


def test_images_are_embedded_and_other_files_linked_once() -> None:
    table = {"name": "t.csv", "url": "https://x.test/t.csv?a=1", "mime_type": "text/csv"}
    assert links(PNG, table, PNG) == "\n\n![a.png](/f/a.png)\n\n[Download t.csv](https://x.test/t.csv?a=1)"
    assert links(PNG, answer="See ![a.png](/f/a.png)!") == ""
    assert links(PNG, answer="See ![a.png](/other)!") != ""


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "", "x.png", "http://[", None, 1])
def test_invalid_urls_are_omitted(url: Any) -> None:
    assert links({**PNG, "url": url}) == ""


def test_names_and_urls_cannot_break_out_of_the_link() -> None:
    assert links({"name": "a](x)\n![b", "url": "/f/a b(c).png", "mime_type": None}) == (
        "\n\n[Download a\\](x) !\\[b](/f/a%20b%28c%29.png)"
    )
