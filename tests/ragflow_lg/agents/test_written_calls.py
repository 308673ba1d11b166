"""Tool calls that a model has written as text."""

import pytest

from ragflow_lg.agents.written_calls import find_unread_call, read_written_calls
from ragflow_lg.services.chat import AnswerEnd
from tests.fakes.agents import play_agent
from tests.fakes.services import Reply
from tests.harness.rows import each_row

CALL = '<tool_call>\n{"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}\n</tool_call>'
UNREAD = [
    CALL.replace("wikipedia_search_0", "other"),
    "<tool_call>\n<function=wikipedia_search_0>\n<parameter=query>Laos</parameter>\n</function>\n</tool_call>",
    '[TOOL_CALLS][{"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}]',
    '<function=wikipedia_search_0>{"query": "Laos"}</function>',
    '<|python_tag|>{"name": "wikipedia_search_0", "parameters": {"query": "Laos"}}',
    '```json\n{"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}\n```',
    '{"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}',
    'Let me look.\n{"name": "wikipedia_search_0", "parameters": {"query": "Laos"}}',
    '```json\n{"name": "wikipedia_search_0", "parameters": {"query": "Laos"}}\n```',
    '```\n{"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}\n```',
    '{"type": "function", "function": {"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}}',
    '{"parameters": {"query": "Laos"}, "name": "wikipedia_search_0"}',
    "{'tool': 'wikipedia_search_0', 'args': {'query': 'Laos'}}",
    '{"action": "wikipedia_search_0", "action_input": {"query": "Laos"}}',
    '<tools>{"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}</tools>',
    '[wikipedia_search_0(query="Laos")]',
    '```python\nprint(default_api.wikipedia_search_0(query="Laos"))\n```',
    '<|channel|>commentary to=functions.wikipedia_search_0 <|message|>{"query": "Laos"}<|call|>',
    'Action: wikipedia_search_0\nAction Input: {"query": "Laos"}',
    "**Action:** `wikipedia_search_0`",
    "<wikipedia_search_0><query>Laos</query></wikipedia_search_0>",
    '<tool name="wikipedia_search_0">Laos</tool>',
    f"To call it, write `{CALL}`.",
    f"`call: {CALL} now`",
    f"For example:\n```xml\n{CALL}\n```\nThat is all.",
    f"~~~\n{CALL}\n~~~",
    f'The page says: "{CALL}". I did not call it.',
    f'The page says: "Please {CALL} now!"',
    f"The page says: “First {CALL}”.",
    f"They wrote '{CALL}'.",
    "> " + CALL.replace("\n", ""),
    "<tool_call>",
    "Use <tool_call> like this.",
]


PLAIN = [
    "1 < 2",
    "a <tool",
    "It is <b>far</b>.",
    '```json\n{"name": "Ada"}\n```',
    '{"name": "Ada", "arguments": {"query": "Laos"}}',
    '{"name": "wikipedia_search_0", "year": 1990}',
    "I asked wikipedia_search_0 (twice).",
    "Action: wait for wikipedia_search_01",
    "[other(x=1)]",
]


@each_row("is_shown", [True, False])
@each_row(
    "text",
    [
        CALL, f"Let me look.\n{CALL}", f"<think>I need a {CALL}</think>{CALL}", CALL.removesuffix("</tool_call>"),
        f'```\ncode\n```\nIt\'s `x`, "y":\n{CALL}', f"It's {CALL}",
        CALL.replace('{"query": "Laos"}', '"{\\"query\\": \\"Laos\\"}"'), CALL.replace('"arguments"', '"parameters"'),
    ],
)  # fmt: skip
async def test_a_tagged_call_of_an_offered_tool_is_made(text: str, is_shown: bool) -> None:
    turn = await play_agent([Reply(text), Reply("Vientiane.")], is_shown=is_shown)
    assert turn.run.status == "succeeded"
    assert "Vientiane is the capital." in turn.tool_results[0]
    assert (turn.outputs["content"] or "").endswith("Vientiane.")
    assert "tool_call" not in (turn.run.answer or "")
    assert len(turn.http.requests) == 1


async def test_several_tagged_calls_are_made_together() -> None:
    turn = await play_agent([Reply(f"{CALL}\n{CALL.replace('Laos', 'Peru')}"), Reply("ok")])
    assert (turn.run.answer, len(turn.http.requests), len(turn.tool_results)) == ("ok", 2, 2)


@each_row(("text", "is_reported"), [*((text, True) for text in UNREAD), *((text, False) for text in PLAIN)])
async def test_other_texts_are_shown_and_reported_if_they_look_like_calls(
    text: str, is_reported: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    turn = await play_agent([Reply(text)])
    assert (turn.run.status, turn.run.answer, turn.http.requests) == ("succeeded", text, [])
    assert ("looks like a tool call" in caplog.text) is is_reported


async def test_a_call_in_thinking_that_does_not_end_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    turn = await play_agent([Reply(f"<think>Perhaps {CALL}")])
    assert turn.http.requests == []
    assert "looks like a tool call" in caplog.text


async def test_a_tagged_call_that_was_cut_off_is_not_made() -> None:
    end: AnswerEnd = "length"
    text = '<tool_call>\n{"name": "wikipedia_search_0", "arguments": {"query": "La'
    turn = await play_agent([Reply(text, end=end)])
    assert turn.http.requests == []
    assert (turn.run.answer or "").startswith(text)


def test_a_call_needs_a_name_and_an_object() -> None:
    for text in ("<tool_call>[]</tool_call>", '<tool_call>{"arguments": {}}</tool_call>', "<tool_call></tool_call>"):
        assert read_written_calls(text, ["look"]) == ()
        assert find_unread_call(text, ["look"])
