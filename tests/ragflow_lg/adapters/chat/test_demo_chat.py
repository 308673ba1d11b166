from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.chat.demo_chat import DemoChat, ScriptLine, read_script
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.models.classification import CONVERSATION_HEAD, NamedCategory, build_instructions
from ragflow_lg.models.structured_answer import append_schema, find_problems
from ragflow_lg.services.chat import ChatRequest


async def answer_to(request: ChatRequest, demo: DemoChat | None = None) -> str:
    return (await (demo or DemoChat()).complete(request)).text


def asking(text: str, system: str = "", **more: Any) -> ChatRequest:
    return ChatRequest(system, ({"role": "user", "content": text},), **more)


async def test_the_echo_says_that_it_is_a_demo() -> None:
    answer = await answer_to(asking("hello"))
    assert "demo model" in answer
    assert answer.endswith("hello")


async def test_the_echo_of_a_long_question_is_short_and_counts_images() -> None:
    answer = await answer_to(asking("x" * 10_000, images=("data:image/png;base64,A",)))
    assert len(answer) < 700
    assert "1 image(s)" in answer


async def test_a_stream_gives_the_same_in_pieces() -> None:
    pieces = [delta.text async for delta in DemoChat().stream(asking("hello"))]
    assert len(pieces) > 1
    assert "".join(pieces) == await answer_to(asking("hello"))


async def test_the_first_line_that_fits_is_the_answer() -> None:
    demo = DemoChat([ScriptLine("blue", "sky"), ScriptLine("kind", "system"), ScriptLine("", "rest")])
    assert await answer_to(asking("blue"), demo) == "sky"
    assert await answer_to(asking("red", "be kind"), demo) == "system"
    assert await answer_to(asking("red"), demo) == "rest"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("my app crashes", "tech"),
        ("I want a REFUND", "billing"),
        ("发票在哪里", "billing"),
        ("what a day", "other"),
    ],
)
async def test_a_category_is_chosen_by_its_words(question: str, expected: str) -> None:
    system = build_instructions(
        [
            NamedCategory("billing", "money 发票", ("refund please",)),
            NamedCategory("tech", "bugs", ("it crashes",)),
            NamedCategory("other"),
        ]
    )
    said = f'{CONVERSATION_HEAD}USER: "refund" | ASSISTANT: "crashes?" | USER: "{question}"'
    assert await answer_to(asking(said, system)) == expected


async def test_a_schema_is_filled_in() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "color": {"enum": ["red", "blue"]},
            "fixed": {"const": 7},
            "usual": {"default": "u"},
            "size": {"type": "integer", "minimum": 3},
            "share": {"type": ["null", "number"]},
            "ok": {"type": "boolean"},
            "nothing": {"type": "null"},
            "either": {"anyOf": [{"type": "number"}, {"type": "string"}]},
            "few": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "many": {"type": "array"},
            "inner": {"properties": {"deep": {"type": "string"}}},
            "odd": True,
        },
        "required": ["name", "few"],
    }
    answer = json.loads(await answer_to(asking("q", append_schema("S", schema))))
    assert answer == {
        "name": "demo name",
        "color": "red",
        "fixed": 7,
        "usual": "u",
        "size": 3,
        "share": 0,
        "ok": False,
        "nothing": None,
        "either": 0,
        "few": ["demo few"],
        "many": [],
        "inner": {"deep": "demo deep"},
        "odd": None,
    }
    assert find_problems(answer, schema) == []


async def test_a_deep_schema_ends() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(50):
        schema = {"type": "object", "properties": {"a": schema}}
    assert json.loads(await answer_to(asking("q", append_schema("", schema))))["a"]["a"]


def test_a_script_is_read(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text('[{"match": "a", "reply": "b"}, {"reply": "c"}]')
    assert read_script(file) == (ScriptLine("a", "b"), ScriptLine("", "c"))


@pytest.mark.parametrize("text", ["{", "{}", '["a"]', '[{"match": "a"}]', '[{"match": 1, "reply": "b"}]'])
def test_a_script_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "script.json"
    file.write_text(text)
    with pytest.raises(SettingsError, match="script"):
        read_script(file)


def test_a_script_that_is_missing_or_huge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_script(tmp_path / "none.json")
    (tmp_path / "huge.json").write_text(" " * (1024 * 1024 + 1))
    with pytest.raises(SettingsError, match="larger than"):
        read_script(tmp_path / "huge.json")
