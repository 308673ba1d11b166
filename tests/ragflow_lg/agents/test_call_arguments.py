"""Tool calls with broken arguments: the model gets a result or an explanation, and every request is valid."""

import json
import random
from typing import Any

from ragflow_lg.adapters.chat.openai_messages import write_messages
from ragflow_lg.agents.call_arguments import conversation_calls, repair_calls
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.services.chat import AnswerEnd, ChatRequest, ToolCall
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.policies import Canvases
from tests.fakes.services import Reply, fake_services
from tests.harness.rows import each_row, read_rows

READABLE = read_rows("repaired_arguments")
KEPT = {
    '{"query": "say "hi" now",}': {"query": 'say "hi" now'},
    '{"query": "line 1\n- "item"", "n": 3}': {"query": 'line 1\n- "item"', "n": 3},
    '{"query": "a\\nb caf\\u00e9", "price": 0.10, "n": -5,}': {"query": "a\nb café", "price": 0.1, "n": -5},
    '{"query": "C:\\\\new\\\\dir",}': {"query": "C:\\new\\dir"},
    "{'query': 'it\\'s', 'tags': ['a', ''], 'exact': TRUE}": {"query": "it's", "tags": ["a", ""], "exact": True},
    '{"query": "http://h/a // b # 5",}': {"query": "http://h/a // b # 5"},
}
UNREADABLE = [
    *read_rows("unreadable_arguments"),
    ("{" * 10_000, "cut off"),
    ('{"query": ' + "[" * 5_000 + "]" * 5_000 + "}", "must be a JSON object"),
]


def arguments_sent(request: ChatRequest) -> list[Any]:
    """Convert a request as the client for OpenAI does, check it by the rules of its API, return the arguments of calls.

    Every call has an id of its own, a name and an object, and is followed by its result.
    """
    from langchain_core.messages import convert_to_messages
    from langchain_openai.chat_models.base import _convert_message_to_dict  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType] - what ChatOpenAI sends

    converted: list[dict[str, Any]] = [
        _convert_message_to_dict(m) for m in convert_to_messages(write_messages(request))
    ]
    json.dumps(converted, allow_nan=False, ensure_ascii=False).encode()
    open_ids: list[str] = []
    found: list[Any] = []
    for message in converted:
        if message["role"] == "tool":
            open_ids.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
            continue
        assert open_ids == []
        calls = message.get("tool_calls", ())
        open_ids = [call["id"] for call in calls]
        assert len(set(open_ids)) == len(open_ids)
        assert all(0 < len(call["function"]["name"]) <= 64 for call in calls)
        found += [json.loads(call["function"]["arguments"]) for call in calls]
    assert open_ids == []
    assert all(isinstance(arguments, dict) for arguments in found)
    return found


@each_row(("text", "is_shown"), [*((text, True) for text in READABLE), (READABLE[0], False)])
async def test_almost_json_is_repaired_for_the_tool_and_for_the_conversation(text: str, is_shown: bool) -> None:
    turn = await play_agent([tool_calls(("wikipedia_search_0", text)), Reply("ok")], is_shown=is_shown)
    assert (turn.run.status, turn.run.answer if is_shown else turn.outputs["content"]) == ("succeeded", "ok")
    assert "Vientiane is the capital." in turn.tool_results[0]
    (sent,) = arguments_sent(turn.model.requests[-1][1])
    assert sent["query"] == "Laos"


@each_row("text", KEPT)
async def test_a_repair_keeps_every_word(text: str) -> None:
    (call,) = await repair_calls([ToolCall("a", "x", text)], fake_services().workers)
    assert json.loads(call.arguments) == KEPT[text]


@each_row(("text", "says"), UNREADABLE)
async def test_other_arguments_are_explained_to_the_model(text: str, says: str) -> None:
    turn = await play_agent([tool_calls(("wikipedia_search_0", text)), Reply("ok")])
    assert (turn.run.status, turn.run.answer) == ("succeeded", "ok")
    assert says in turn.tool_results[0]
    assert text[:20] in turn.tool_results[0]
    assert len(turn.tool_results[0]) < 500
    assert turn.http.requests == []
    assert arguments_sent(turn.model.requests[-1][1]) == [{}]


@each_row("text", ["", " \n", "null", "None", "{}"])
async def test_no_arguments_are_an_empty_object(text: str) -> None:
    turn = await play_agent([tool_calls(("wikipedia_search_0", text)), Reply("ok")])
    assert turn.run.answer == "ok"
    assert turn.tool_results == ["Invalid arguments: query: This argument is required and must not be blank."]
    assert turn.http.requests == []
    assert arguments_sent(turn.model.requests[-1][1]) == [{}]


async def test_with_old_values_a_search_without_its_query_finds_nothing() -> None:
    deployment = Canvases(compatibility=Compatibility(old_values=True))
    turn = await play_agent([tool_calls(("wikipedia_search_0", "{}")), Reply("ok")], deployment=deployment)
    assert (turn.run.answer, turn.tool_results, turn.http.requests) == ("ok", [""], [])


PIECES = (*read_rows("pieces_of_calls"), "x" * 300, "{" * 300)
NAMES = ("wikipedia_search_0", "wikipedia_search", "unknown", "", "a b", "n" * 100)


def broken_reply(random_: random.Random, strategy: str) -> Reply:
    """Return a model's answer with calls as it should not write them."""
    arguments = "".join(random_.choices(PIECES, k=random_.randint(0, 4)))
    name = random_.choice(NAMES)
    end: AnswerEnd = random_.choice(("", "stop", "length"))
    if strategy in ("function_calling", "deep_research"):
        call = {"name": name, "arguments": arguments, "id": random_.choice(("same", "", "own"))}
        return Reply("done" if strategy == "deep_research" else "", calls=[call] * random_.randint(1, 3), end=end)
    if strategy == "react":
        return Reply(f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>', end=end)
    return Reply(f'[{{"name": "{name}", "arguments": {arguments}}}', end=end)


@each_row("seed", range(4))
@each_row("strategy", ["function_calling", "react", "plan_and_reflect", "deep_research"])
async def test_a_turn_with_broken_calls_ends_with_an_answer(strategy: str, seed: int) -> None:
    random_ = random.Random(f"{strategy} {seed}")
    first = [Reply("Fine.")] if strategy == "plan_and_reflect" else []
    replies = [*first, *(broken_reply(random_, strategy) for _ in range(3)), Reply("done", repeat=True)]
    params = {"strategy": strategy, "max_rounds": 3, "max_retries": 0}
    turn = await play_agent(replies, params, is_shown=seed % 2 == 0)
    assert turn.run.status == "succeeded", turn.outputs
    assert (turn.outputs["content"] or "").endswith("done")
    for _, request in turn.model.requests:
        arguments_sent(request)


async def test_ids_are_unique_within_an_answer() -> None:
    written = [ToolCall("a", "x", "{}"), ToolCall("a", "y", "{}"), ToolCall("", "z", "{}"), ToolCall("", "z", "{}")]
    ids = [call.id for call in await repair_calls(written, fake_services().workers)]
    assert ids == ["a", "a_2", "call_3", "call_4"]


async def test_the_last_call_of_an_answer_that_was_cut_off_is_not_repaired() -> None:
    written = [ToolCall("a", "x", '{"n": 1,}'), ToolCall("b", "x", '{"n": 1')]
    first, last = await repair_calls(written, fake_services().workers, is_cut=True)
    assert (first.arguments, last.arguments) == ('{"n": 1}', '{"n": 1')
    for text, expected in (("", "{"), ("{}", "{"), ('{"n": 1}', '{"n": 1}')):
        (call,) = await repair_calls([ToolCall("a", "x", text)], fake_services().workers, is_cut=True)
        assert call.arguments == expected


def test_a_conversation_keeps_the_text_of_arguments_that_are_valid() -> None:
    (call,) = conversation_calls([ToolCall("a", "x", '{"n":1}')])
    assert call == {"id": "a", "name": "x", "arguments": '{"n":1}'}
