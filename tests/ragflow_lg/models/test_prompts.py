from typing import Any

import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.variable_references import parse_template
from ragflow_lg.models.prompts import (
    PromptRenderer,
    chat_template_kwargs,
    describe_left_out,
    extract_sections,
    fit_context,
    read_history,
)
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.services import fake_services
from tests.harness.rows import each_row

IMAGE = "data:image/png;base64,AA=="
ANSWERS: list[dict[str, Any]] = [{"content": "a1", "downloads": []}, {"_next": []}]
HISTORY: list[list[Any]] = [
    *(["user", "q1"], ["assistant", ANSWERS[0]], ["user", None], ["assistant", ANSWERS[1]], ["user", {"x": 1}])
]


def context(**globals_: Any) -> RunContext:
    named = {f"sys.{name}": value for name, value in globals_.items()}
    plan = plan_of(canvas({"node": text()}))
    return RunContext(plan, plan.nodes[NodeId("node")], TurnContext(fake_services()), {"globals": named})


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@each_row(
    ("window", "expected"),
    [
        (0, []),
        (-1, []),
        (1, [assistant(""), user("")]),
        (2, [assistant("a1"), user(""), assistant(""), user("")]),
        (9, [user("q1"), assistant("a1"), user(""), assistant(""), user("")]),
    ],
)
def test_the_window_counts_pairs(window: int, expected: list[dict[str, str]]) -> None:
    assert read_history(HISTORY, window) == expected


def test_values_are_rendered_without_their_images_and_nulls() -> None:
    template = parse_template("{sys.query} {sys.files} ({sys.user_id})")
    pictures = {"text": ["a", IMAGE], "picture": IMAGE}
    renderer = PromptRenderer(context(query=pictures, files=[IMAGE, "t"], user_id=IMAGE))
    assert renderer.text(template) == '{"text": ["a"]} ["t"] ()'
    assert renderer.images == [IMAGE]
    nulls = {"k": None, "n": 0, "deep": {"a": None, "b": [None, [None]]}, "rows": [{"x": None}, {"x": False}]}
    renderer = PromptRenderer(context(query=nulls, files=[None, "a"], user_id=None))
    assert renderer.text(template) == '{"n": 0, "rows": [{"x": false}]} ["a"] ()'


def test_files_are_appended_to_the_last_user_message() -> None:
    renderer = PromptRenderer(context(files=["one", IMAGE, "two"]))
    messages = renderer.attach_files([parse_template("{sys.query}")], [user("a"), user("b"), assistant("c")])
    assert messages == [user("a"), user("b\n\none\n\ntwo"), assistant("c")]
    assert renderer.images == [IMAGE]
    for shown in ("{sys.files}", "{{ sys.files }}"):
        assert PromptRenderer(context(files=["one"])).attach_files([parse_template(shown)], [user("a")]) == [user("a")]
    for files, message in ((None, user("a")), ([], user("a")), ([IMAGE], user("a")), (["one"], assistant("a"))):
        assert PromptRenderer(context(files=files)).attach_files([], [message]) == [message]


@each_row(
    ("value", "expected"),
    [({"a": 1}, {"a": 1}), ('{"a": 1}', {"a": 1}), ("{", {}), ("[1]", {}), ([1], {}), ("", {}), (None, {})],
)
def test_template_kwargs_are_a_map_or_nothing(value: Any, expected: dict[str, Any]) -> None:
    assert chat_template_kwargs(context(chat_template_kwargs=value)) == expected


@each_row(
    ("system", "rest", "overrides"),
    [
        ("Be short.", "Be short.", {}),
        ("A.<CITATION_GUIDELINES>[n]</CITATION_GUIDELINES> b", "A. b", {"CITATION_GUIDELINES": "[n]"}),
        ("a<task_analysis>x\ny</TASK_ANALYSIS>b", "ab", {"TASK_ANALYSIS": "x\ny"}),
        ("<Reflection>1</reflection>a<TASK_ANALYSIS>2</TASK_ANALYSIS>", "a", {"REFLECTION": "1", "TASK_ANALYSIS": "2"}),
        ("a<REFLECTION>b", "a<REFLECTION>b", {}),
        ("a</REFLECTION>b", "a</REFLECTION>b", {}),
        ("<TASK_ANALYSIS>a<REFLECTION>b</REFLECTION>", "<TASK_ANALYSIS>a", {"REFLECTION": "b"}),
        ("<OTHER>a</OTHER>", "<OTHER>a</OTHER>", {}),
    ],
)
def test_sections_are_extracted(system: str, rest: str, overrides: dict[str, str]) -> None:
    assert extract_sections(system) == (rest, overrides)


@each_row(
    ("system", "question", "tokens"),
    [("s" * 40, "c" * 40, (10, 10)), ("s" * 40, "c" * 4000, (10, 87)), ("s" * 4000, "c" * 40, (87, 10))],
)
def test_a_request_is_shortened_to_the_window(system: str, question: str, tokens: tuple[int, int]) -> None:
    fitted, messages = fit_context(system, [user("a" * 400), user(question)], 100)
    assert (estimate_tokens(fitted), estimate_tokens(messages[-1]["content"]), len(messages)) == (*tokens, 1)


def test_the_oldest_turns_are_left_out_one_by_one() -> None:
    turns = [user("1" * 40), assistant("a" * 40), user("2" * 40), assistant("b" * 40), user("3" * 40)]
    kept = ["".join(m["content"][0] for m in fit_context("s" * 8, turns, tokens)[1]) for tokens in (60, 50, 30, 14)]
    assert kept == ["1a2b3", "2b3", "3", "3"]


def test_prompts_of_role_system_and_the_newest_question_stay() -> None:
    system = {"role": "system", "content": "Be brief."}
    messages = [user("1" * 400), assistant("a" * 400), system, user("q"), assistant("So:")]
    assert fit_context("s", messages, 60)[1] == messages[2:]


def test_what_was_left_out_is_described() -> None:
    turns = [user("1" * 400), assistant("a" * 400), user("3" * 40)]
    described = describe_left_out(("s", turns), fit_context("s", turns, 60), 60)
    assert described.startswith("The request did not fit into the model's context of 60 tokens: the 2 oldest messages ")
    long = ("s" * 4000, [user("c" * 4000)])
    described = describe_left_out(long, fit_context(*long, 100), 100)
    assert "the question was cut from 4,000 to 76 characters; the system prompt was cut" in described
    assert describe_left_out(("s", turns), ("s", turns), 60) == ""


@pytest.mark.parametrize("messages", [[], [user(" ")], [assistant("a")]])
def test_a_question_is_needed(messages: list[dict[str, str]]) -> None:
    with pytest.raises(ComponentError, match="no question"):
        fit_context("s", messages, 100)
