from typing import Any

import pytest

from ragflow_lg.components.categorize import categorize
from ragflow_lg.models.classification import NamedCategory, parse_categories
from tests.fakes.prompts import read_prompt
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

CATEGORIES = {
    "billing": {"description": "money", "examples": ["refund please"], "to": ["bill"]},
    "tech": {"description": "bugs", "examples": ["it crashes"], "to": ["fix", "log"]},
    "other": {"description": "rest", "to": ["misc"]},
}


async def ask(model: ScriptedModel, params: dict[str, Any] | None = None, **more: Any) -> Result:
    params = {"category_description": CATEGORIES, **(params or {})}
    more.setdefault("globals", {"sys.query": "q2"})
    return await run_component(categorize, params, services=fake_services(models=OneModel(model)), **more)


def conversation(model: ScriptedModel) -> str:
    (message,) = model.requests[-1][1].messages
    return (read_prompt("categorize_message", message["content"]) or {})["conversation"]


async def test_the_chosen_category_leads_to_all_its_targets() -> None:
    model = ScriptedModel([Reply("<think>billing</think>I think TECH.")])
    result = await ask(model)
    assert result.outputs == {"category_name": "tech", "_next": ["fix", "log"]}
    assert result.targets == ("fix", "log")
    assert result.inputs == {"sys.query": "q2"}


@each_row("answer", ["<think>tech</think>Biotechnology, I guess.", "Biotechnology, I guess.<think>billing, billing"])
async def test_an_answer_without_a_category_takes_the_last_one_and_is_reported(
    answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    result = await ask(ScriptedModel([Reply(answer)]))
    assert (result.targets, result.outputs["category_name"]) == (("misc",), "other")
    assert result.outputs["unmatched_answer"].startswith("Biotechnology, I guess.")
    assert "Biotechnology, I guess." in caplog.text


@each_row(("default", "taken"), [("tech", "tech"), ("none", "other"), ("", "other"), (None, "other")])
async def test_the_default_category_is_taken_instead_of_the_last_one(default: str | None, taken: str) -> None:
    params = {"category_description": CATEGORIES, "default_category": default}
    assert (await ask(ScriptedModel([Reply("Biotechnology")]), params)).outputs["category_name"] == taken
    findings = [finding.path for finding in categorize.lint(bind(categorize, params))]
    assert findings == ([("default_category",)] if default == "none" else [])


async def test_an_empty_answer_is_requested_again_and_then_an_error() -> None:
    model = ScriptedModel([Reply(""), Reply("tech")])
    assert (await ask(model)).outputs == {"category_name": "tech", "_next": ["fix", "log"]}
    assert len(model.requests) == 2
    assert "empty answer" in str((await ask(ScriptedModel([Reply(""), Reply(" ")]))).error)


@each_row("text", ["<think>Billing? Billing?", "<think>It is billing.</think>"])
async def test_thinking_does_not_decide(text: str) -> None:
    result = await ask(ScriptedModel([Reply(text)]))
    assert "only thinking" in str(result.error)


async def test_an_answer_that_was_cut_off_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    for text in ("Not billing, but", "tech"):
        await ask(ScriptedModel([Reply(text, end="length")]))
        assert "was cut off" in caplog.text
        assert text in caplog.text
        caplog.clear()


async def test_the_model_sees_the_categories() -> None:
    model = ScriptedModel([Reply("tech")])
    await ask(model, {"temperature": "0.1", "temperatureEnabled": True, "thinking": "disabled"})
    is_streaming, request = model.requests[0]
    assert not is_streaming
    assert parse_categories(request.system) == [
        NamedCategory("billing", "money", ("refund please",)),
        NamedCategory("tech", "bugs", ("it crashes",)),
        NamedCategory("other", "rest"),
    ]
    assert (request.sampling, request.thinking) == ({"temperature": 0.1}, "disabled")


SAID = [["assistant", {"content": text}] for text in ("a0", "a\n1")]
HISTORY = [["user", "q0"], SAID[0], ["user", "q1"], SAID[1], ["user", "q2"]]


@each_row(
    ("window", "expected"),
    [
        (0, 'USER: "q2"'),
        (1, 'ASSISTANT: "a 1" | USER: "q2"'),
        (2, 'ASSISTANT: "a0" | USER: "q1" | ASSISTANT: "a 1" | USER: "q2"'),
    ],
)
async def test_the_window_counts_this_turn(window: int, expected: str) -> None:
    model = ScriptedModel([Reply("tech")])
    await ask(model, {"message_history_window_size": window}, history=HISTORY)
    assert conversation(model) == expected


async def test_the_query_replaces_this_turns_entry_and_a_long_conversation_loses_its_oldest_messages() -> None:
    model = ScriptedModel([Reply("tech")])
    await ask(model, {"query": "{begin@field}"}, outputs={"begin": {"field": {"a": 1}}}, history=[["user", "other"]])
    assert conversation(model) == 'USER: "{"a": 1}"'
    model = ScriptedModel([Reply("tech")], context_tokens=400)
    history = [["user", "old" * 1000], ["assistant", {"content": "short"}], ["user", "q2"]]
    await ask(model, {"message_history_window_size": 5}, history=history)
    assert conversation(model) == 'ASSISTANT: "short" | USER: "q2"'


async def test_a_failure_with_a_default_leads_to_the_last_category() -> None:
    model = ScriptedModel([Reply(error="quota")])
    result = await ask(model, {"exception_method": "comment", "exception_default_value": "sorry"})
    assert result.error is None
    assert result.targets == ("misc",)


@each_row(
    ("examples", "expected"),
    [
        ("one\n two \n\n", ["one", "two"]),
        ([{"value": "one"}, {"value": ""}, {}], ["one"]),
        (["one", None], ["one"]),
        (None, []),
    ],
)
def test_examples_are_read_in_every_form(examples: Any, expected: list[str]) -> None:
    params = bind(categorize, {"category_description": {"a": {"examples": examples, "to": "x"}}})
    assert params.category_description["a"].examples == expected
    assert params.category_description["a"].to == ["x"]
