from __future__ import annotations

from typing import Any

from ragflow_lg.base.values import MAX_TEXT_CHARS
from ragflow_lg.component.events import AnswerDiscarded, Delta, NodeFinished
from ragflow_lg.components.llm import llm
from ragflow_lg.models.structured_answer import append_schema
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.prompts import GUIDELINES
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

IMAGE = "data:image/png;base64,AA=="
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
STRUCTURED = {"outputs": {"structured": SCHEMA}}


async def ask(model: ScriptedModel, params: dict[str, Any] | None = None, **more: Any) -> Result:
    more.setdefault("globals", {"sys.query": "hi", **more.pop("also", {})})
    return await run_component(llm, params or {}, services=fake_services(models=OneModel(model)), **more)


def deltas_of(result: Result) -> list[tuple[str, str]]:
    return [(event.text, event.mark) for event in result.events if isinstance(event, Delta)]


async def test_prompts_and_references_are_rendered_once() -> None:
    model = ScriptedModel([Reply("ok")])
    first = {"role": "USER", "content": "List {cut@result}, none [{cut@none}]"}
    prompts = [first, {"role": "assistant", "content": "Ok"}, {"content": "{sys.query}"}]
    also = {"env.b": True, "sys.query": "{env.b}"}
    params = {"sys_prompt": "Flag {env.b}", "prompts": prompts}
    await ask(model, params, globals=also, outputs={"cut": {"result": ["a", "ü"]}})
    request = model.requests[0][1]
    assert request.system == "Flag true"
    assert [m["content"] for m in request.messages] == ['List ["a", "ü"], none []', "Ok", "{env.b}"]


GO_PORT = {"model_id": "m@P", "system_prompt": "S", "user_prompt": "U", "visual_files": "sys.files"}


@each_row(
    ("params", "system", "question"),
    [
        ({}, "", "hi"),
        ({"prompts": "Say {sys.query}"}, "", "Say hi"),
        ({"prompts": {"role": "user", "content": "Say {sys.query}"}}, "", "Say hi"),
        (GO_PORT, "S", "U"),
    ],
)
async def test_prompts_are_read_in_every_form(params: dict[str, Any], system: str, question: str) -> None:
    model = ScriptedModel([Reply("ok")])
    result = await ask(model, params)
    assert model.requests == [(False, ChatRequest(system, ({"role": "user", "content": question},)))]
    assert (result.outputs["content"], result.error) == ("ok", None)


async def test_history_goes_before_the_prompts() -> None:
    model = ScriptedModel([Reply("ok")])
    answers = [["assistant", {"content": text}] for text in ("r1", "r2")]
    history = [["user", "one"], answers[0], ["user", "two"], answers[1], ["user", "hi"]]
    await ask(model, {"message_history_window_size": 2, "prompts": "Q: {sys.query}"}, history=history)
    assert [m["content"] for m in model.requests[0][1].messages] == ["r1", "two", "r2", "Q: hi"]


async def test_sampling_thinking_and_template_kwargs_are_sent() -> None:
    model = ScriptedModel([Reply("ok")])
    params = {"temperature": 0.5, "temperatureEnabled": True, "max_tokens": 64, "thinking": "enabled"}
    await ask(model, params, also={"sys.chat_template_kwargs": '{"enable_thinking": true}'})
    request = model.requests[0][1]
    assert request.sampling == {"temperature": 0.5}
    assert request.thinking == "enabled"
    assert request.template_kwargs == {"enable_thinking": True}


@each_row(("has_vision", "images"), [(True, (IMAGE, IMAGE + "B")), (False, ())])
async def test_images_are_sent_to_a_model_with_vision(has_vision: bool, images: tuple[str, ...]) -> None:
    model = ScriptedModel([Reply("ok")], has_vision=has_vision)
    also = {"sys.files": ["text", IMAGE], "env.pictures": [IMAGE, IMAGE + "B"]}
    await ask(model, {"visual_files_var": "env.pictures"}, also=also)
    request = model.requests[0][1]
    assert request.images == images
    assert request.messages[0]["content"] == "hi\n\ntext"


async def test_an_empty_question_is_an_error() -> None:
    model = ScriptedModel()
    result = await ask(model, {"prompts": "{sys.none}"})
    assert "user prompt is empty" in str(result.error)
    assert model.requests == []


async def test_a_whole_answer_has_no_thinking() -> None:
    assert (await ask(ScriptedModel([Reply("<think>hm</think>Because")]))).outputs["content"] == "Because"
    quoted = await ask(ScriptedModel([Reply("It printed **ERROR**: none")]))
    assert (quoted.outputs["content"], quoted.error) == ("It printed **ERROR**: none", None)


async def test_a_streamed_answer_is_shown_with_marks_and_stored_with_tags() -> None:
    model = ScriptedModel([Reply(chunks=["<th", "ink>", "why", "</thi", "nk>", "be", "be"])])
    result = await ask(model, streams_to=("out",))
    assert deltas_of(result) == [("", "start"), ("why", ""), ("", "end"), ("be", ""), ("be", "")]
    assert result.outputs["content"] == "<think>why</think>bebe"
    assert model.requests[0][0] is True


UNOPENED = ["Let me <", "ponder.\n</thi", "nk>", "\n\nYes", "."]


async def test_thinking_without_an_opening_tag_is_withdrawn_and_shown_as_thinking() -> None:
    result = await ask(ScriptedModel([Reply(chunks=UNOPENED)]), streams_to=("out",))
    assert (result.outputs["content"], result.error) == ("\n\nYes.", None)
    events = [event for event in result.events if isinstance(event, AnswerDiscarded | Delta)]
    (withdrawn,) = [at for at, event in enumerate(events) if isinstance(event, AnswerDiscarded)]
    shown = [(event.text, event.mark, event.is_aside) for event in events[withdrawn + 1 :] if isinstance(event, Delta)]
    thought = [("", "start", True), ("Let me <ponder.\n", "", True), ("", "end", True)]
    assert shown == [*thought, ("\n\nYes", "", False), (".", "", False)]


@each_row("answer", ["<think>hm", "<think>hm</think>", "<think>hm</think>\n ", "hm</think>"])
async def test_an_answer_that_is_only_thinking_is_an_error_or_said(answer: str) -> None:
    whole = await ask(ScriptedModel([Reply(answer)]))
    assert "only thinking" in str(whole.error)
    assert ("did not end" in str(whole.error)) is (answer == "<think>hm")
    again = await ask(ScriptedModel([Reply(answer), Reply("Yes")]), {"max_retries": 1, "delay_after_error": 0})
    assert again.outputs["content"] == "Yes"
    streamed = await ask(ScriptedModel([Reply(chunks=[answer])]), streams_to=("out",))
    (notice,) = [event.notices[0] for event in streamed.events if isinstance(event, NodeFinished)]
    assert "only thinking" in notice


async def test_a_model_that_is_asked_again_withdraws_what_it_has_shown() -> None:
    model = ScriptedModel([Reply(chunks=["par"], error="lost"), Reply(chunks=["o", "k"])])
    result = await ask(model, {"max_retries": 1, "delay_after_error": 0}, streams_to=("out",))
    assert (result.error, result.outputs["content"]) == (None, "ok")
    assert len([event for event in result.events if isinstance(event, AnswerDiscarded)]) == 1
    model = ScriptedModel([Reply(chunks=["par"], error="lost"), Reply(error="down")])
    result = await ask(model, {"max_retries": 1, "delay_after_error": 0}, streams_to=("out",))
    assert (result.error, result.outputs["content"]) == ("down", "")


async def test_an_endless_answer_is_cut_off() -> None:
    size = MAX_TEXT_CHARS // 2 + 1
    huge = " ".join(map(str, range(size // 5)))[:size]
    result = await ask(ScriptedModel([Reply(chunks=[huge, huge])]), streams_to=("out",))
    assert "more than" in str(result.error)
    assert result.outputs["content"] == huge


async def test_a_structured_answer_is_the_output_structured() -> None:
    model = ScriptedModel([Reply('{"a": "one", "b": [1, 2')])
    result = await ask(model, {"sys_prompt": "S", **STRUCTURED}, streams_to=("out",))
    assert result.outputs["structured"] == {"a": "one", "b": [1, 2]}
    assert result.outputs.get("content") is None
    assert model.requests[0][0] is False
    assert model.requests[0][1].system == append_schema("S", SCHEMA)


@each_row(
    ("keys", "properties"),
    [
        ({"a": "string", "b": "number"}, {"a": {"type": "string"}, "b": {"type": "number"}}),
        ({"a": "", "b": 0}, {"a": {}, "b": {}}),
        ({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]}, {"a": {}}),
    ],
)
async def test_the_keys_of_an_answer_are_its_schema_unless_the_outputs_declare_one(keys: Any, properties: Any) -> None:
    model = ScriptedModel([Reply('{"a": "one", "b": 2}'), Reply('{"a": "one"}')])
    result = await ask(model, {"sys_prompt": "S", "output_structure": keys}, streams_to=("out",))
    assert (result.outputs["structured"], result.outputs["content"]) == ({"a": "one", "b": 2}, '{"a": "one", "b": 2}')
    schema = {"type": "object", "properties": properties, "required": ["a", "b"]}
    assert model.requests[0][1].system == append_schema("S", schema)
    result = await ask(model, {"output_structure": keys, **STRUCTURED})
    assert (result.outputs["structured"], result.outputs.get("content")) == ({"a": "one"}, None)


@each_row("keys", [["a"], "a", 7, None, {}])
async def test_keys_of_an_answer_that_are_no_map_are_ignored(keys: Any) -> None:
    result = await ask(ScriptedModel([Reply("one")]), {"output_structure": keys})
    assert result.outputs["content"] == "one"


async def test_an_invalid_structured_answer_is_requested_again_with_its_problems() -> None:
    model = ScriptedModel([Reply("sorry, no"), Reply(error="busy"), Reply('{"a": "late"}')])
    result = await ask(model, {"max_retries": 2, "delay_after_error": 0, **STRUCTURED})
    assert result.outputs["structured"] == {"a": "late"}
    request, again, at_last = (request.messages for _, request in model.requests)
    assert request == ({"role": "user", "content": "hi"},)
    assert again[:2] == ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "sorry, no"})
    assert "not a JSON object" in again[2]["content"]
    assert at_last == again


async def test_only_the_last_invalid_answer_is_sent() -> None:
    model = ScriptedModel([Reply("one"), Reply(" ".join(map(str, range(8192)))), Reply("three")])
    result = await ask(model, {"max_retries": 2, "delay_after_error": 0, **STRUCTURED})
    assert "does not match the schema" in str(result.error)
    last = model.requests[2][1].messages
    assert [m["role"] for m in last] == ["user", "assistant", "user"]
    assert last[0]["content"] == "hi"
    assert len(last[1]["content"]) == 8192


def test_an_invalid_schema_is_a_warning() -> None:
    wrong = {"outputs": {"structured": {"properties": {"a": {"type": "Text"}}}}}
    (finding,) = llm.lint(bind(llm, wrong))
    assert (finding.severity, finding.path) == ("warning", ("outputs", "structured"))
    assert not list(llm.lint(bind(llm, STRUCTURED)))
    assert not list(llm.lint(bind(llm, {})))


FOUND = {"chunks": {"61": {"id": "c", "content": "Rice needs water."}}, "doc_aggs": {}}


async def test_the_model_gets_citation_guidelines_if_there_is_something_to_cite() -> None:
    cases: list[tuple[dict[str, Any], Any, str]] = [
        ({"sys_prompt": "S"}, FOUND, f"S\n\n{GUIDELINES}"),
        ({"sys_prompt": "S"}, {}, "S"),
        ({"sys_prompt": "S", "cite": False}, FOUND, "S"),
        ({"sys_prompt": "S<CITATION_GUIDELINES>Mine.</CITATION_GUIDELINES>"}, FOUND, "S\n\nMine."),
    ]
    for params, references, system in cases:
        model = ScriptedModel([Reply("yes")])
        await ask(model, params, references=references)
        assert model.requests[0][1].system == system


async def test_required_evidence_is_requested_once_more() -> None:
    for second, error in (("Water [ID:61].", None), ("Water.", "requires evidence")):
        model = ScriptedModel([Reply("<think>[ID:61]</think>Water [ID:62]."), Reply(second)])
        result = await ask(model, {"requires_evidence": True}, references=FOUND, streams_to=("out",))
        assert (error or "") in (result.error or "")
        assert deltas_of(result) == []
        asked = model.requests[1][1].messages
        assert asked[1] == {"role": "assistant", "content": "Water [ID:62]."}
        assert "Rice needs water." in asked[2]["content"]
        assert result.outputs["content"] == (None if error else second)
