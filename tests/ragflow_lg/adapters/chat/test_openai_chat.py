import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessageChunk
from msgspec.structs import replace

from ragflow_lg.adapters.chat import openai_chat
from ragflow_lg.adapters.chat.chat_settings import ModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.model_abilities import Abilities
from ragflow_lg.adapters.chat.openai_chat import Endpoint, OpenAIChat
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.mock_model.rules import Reply
from ragflow_lg.services.chat import ChatDelta, ChatRequest, ToolCall, ToolSchema, Usage
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.rows import each_row

KEY = "sk-0123456789abcdef"
ODD = "returned an answer that is not in OpenAI's format: "
HELLO = ChatRequest("Be kind.", ({"role": "user", "content": "hello"},))


@asynccontextmanager
async def mock_endpoint(*replies: Reply, model: str = "m", **limits: Any) -> AsyncGenerator[tuple[MockLLM, OpenAIChat]]:
    async with MockLLM(replies or [reply("ok", usage=False)]) as server:
        options: dict[str, Any] = {"max_retries": 0, **limits}
        endpoint = Endpoint("Test", ProviderSettings(server.base_url, KEY, **options))
        try:
            yield server, OpenAIChat(model, endpoint, ModelSettings(100, input_price=1.0, output_price=2.0))
        finally:
            await endpoint.aclose()


async def collect(chat: OpenAIChat) -> list[ChatDelta]:
    return [delta async for delta in chat.stream(HELLO) if delta.text]


async def collect_text(chat: OpenAIChat, texts: list[str]) -> None:
    async for delta in chat.stream(HELLO):
        texts += [delta.text] if delta.text else []


async def test_complete_sends_the_request_and_returns_the_answer() -> None:
    async with mock_endpoint(reply("good ", "day", reasoning=["hm"])) as (server, chat):
        assert (await chat.complete(HELLO)).text == "good day"
        (received,) = server.requests
        assert received.path == "/v1/chat/completions"
        assert received.headers["authorization"] == f"Bearer {KEY}"
        assert received.body["model"] == "m"
        assert received.body["messages"] == [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hello"},
        ]
        assert not {"temperature", "max_tokens", "thinking", "chat_template_kwargs"} & received.body.keys()


async def test_stream_yields_chunks_unchanged_and_marks_reasoning() -> None:
    async with mock_endpoint(reply("ha", "ha", "!", reasoning=["let ", "me"])) as (server, chat):
        thoughts = [ChatDelta(text, is_thinking=True) for text in ("let ", "me")]
        assert await collect(chat) == [*thoughts, ChatDelta("ha"), ChatDelta("ha"), ChatDelta("!")]
        assert server.requests[0].body["stream"] is True
    async with mock_endpoint(reply()) as (_, chat):
        assert (await chat.complete(HELLO)).text == ""
        assert await collect(chat) == []
    async with mock_endpoint(reply(reasoning=["hm"])) as (_, chat):  # an answer that is only reasoning is no empty one
        assert (await chat.complete(HELLO)).text == "<think>hm</think>"


@each_row(
    "delta",
    [
        *({name: "hm"} for name in ("reasoning_content", "reasoning", "thinking")),
        {"reasoning": {"summary": [{"type": "summary_text", "text": "h"}, {"text": "m"}]}},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}]},
    ],
)
async def test_every_form_of_reasoning_is_marked(delta: dict[str, Any]) -> None:
    async with mock_endpoint(raw_stream({"index": 0, "delta": delta})) as (_, chat):
        deltas = await collect(chat)
    assert ("".join(each.text for each in deltas), {each.is_thinking for each in deltas}) == ("hm", {True})


async def test_options_reach_the_endpoint_under_the_names_it_knows() -> None:
    request = ChatRequest(
        "",
        ({"role": "user", "content": "q"},),
        sampling={"temperature": 0.0, "top_p": 0.5, "max_tokens": 7},
        thinking="enabled",
        template_kwargs={"enable_thinking": False},
    )
    async with mock_endpoint() as (server, chat):
        await chat.complete(request)
        body = server.requests[0].body
    assert body["messages"] == [{"role": "user", "content": "q"}]
    assert (body["temperature"], body["top_p"], "max_tokens" in body) == (0.0, 0.5, False)
    assert body["thinking"] == {"type": "enabled"}
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_openai_gets_the_newer_name_of_max_tokens() -> None:
    capabilities = ModelSettings(1, sends_max_tokens=True)
    chat = OpenAIChat("m", Endpoint("OpenAI", ProviderSettings("https://api.openai.com/v1", KEY)), capabilities)
    options = chat.options(ChatRequest("", (), sampling={"max_tokens": 7}))
    assert options == {"max_completion_tokens": 7}


async def test_images_are_added_to_the_last_user_message() -> None:
    messages = tuple(
        {"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"))
    )
    async with mock_endpoint() as (server, chat):
        for sent in (messages, messages[1:2]):
            await chat.complete(ChatRequest("", sent, images=("data:image/png;base64,AA==",)))
    first, without = (request.body["messages"] for request in server.requests)
    assert first[:2] == list(messages[:2])
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    assert first[2]["content"] == [{"type": "text", "text": "c"}, image]
    assert without == list(messages[1:2])


@each_row(("status", "is_retryable"), [(400, False), (401, False), (307, False), (429, True), (500, True)])
async def test_a_refusal_names_status_and_reason_but_never_the_key(status: int, is_retryable: bool) -> None:
    async with mock_endpoint(reply(status=status, error=f"no luck with {KEY}")) as (server, chat):
        for call in (chat.complete(HELLO), collect(chat)):
            with pytest.raises(ServiceError) as caught:
                await call
            text = str(caught.value)
            assert f"'m' of Test answered {status}" in text
            assert "no luck with ***" in text
            assert KEY not in text
            assert caught.value.is_retryable is is_retryable
        assert len(server.requests) == 2, "the client must not try again by itself"


@each_row(
    ("body", "reason"),
    [
        ('{"error": "no luck"}', "no luck"),
        ('"no luck"', "no luck"),
        ("<html>no luck</html>", "<html>no luck</html>"),
        ('[{"error": {"message": "no luck"}}]', "[{'error': {'message': 'no luck'}}]"),
        ('{"error": {"message": "no luck"}}', "no luck"),
        ("", "Error code: 400"),
    ],
)
async def test_a_refusal_of_any_form_keeps_its_reason(body: str, reason: str) -> None:
    async with mock_endpoint(reply(status=400, garbage=body)) as (_, chat):
        with pytest.raises(ServiceError) as caught:
            await chat.complete(HELLO)
    assert str(caught.value) == f"The model 'm' of Test answered 400: {reason}"


def raw_stream(*chunks: dict[str, Any], end: str = "data: [DONE]\n\n") -> Reply:
    """Return a streamed reply of exactly these chunks."""
    return reply(garbage="".join(f"data: {json.dumps({'choices': [chunk]})}\n\n" for chunk in chunks) + end)


@each_row(
    ("body", "message"),
    [
        ("[" * 4_000, f"sent an answer that is nested more than 100 levels deep|{ODD}it is nested too deeply"),
        ("{", f"{ODD}(it is not JSON|it ends before the first choice)"),
        ("[1]", f"{ODD}(it|a chunk of it) is a list, not an object"),
        ("surprise", f"{ODD}.*"),
        ('{"choices": null}', f"{ODD}.*"),
        ('{"error": {"message": "odd"}}', f"{ODD}it is an error: odd|failed: odd"),
        ('{"choices": [{"message": {"content": 5}, "delta": {"content": 5}}]}', f"{ODD}its content is a number"),
    ],
)
async def test_an_invalid_answer_is_reported_in_one_sentence(body: str, message: str) -> None:
    async with mock_endpoint(reply(garbage=body), reply(garbage=f"data: {body}\n\n")) as (_, chat):
        for call in (chat.complete(HELLO), collect(chat)):
            with pytest.raises(ServiceError) as caught:
                await call
            assert re.fullmatch(f"The model 'm' of Test ({message})", str(caught.value)), str(caught.value)


async def test_a_stream_is_complete_with_a_finish_reason_or_done() -> None:
    text: dict[str, Any] = {"delta": {"content": "a [DONE] "}}
    stop: dict[str, Any] = {"delta": {}, "finish_reason": "stop"}
    async with mock_endpoint(raw_stream(text), raw_stream(text, stop, end="")) as (_, chat):
        assert [await collect(chat) for _ in range(2)] == [[ChatDelta("a [DONE] ")]] * 2
    async with mock_endpoint(raw_stream(text, end=""), raw_stream()) as (_, chat):
        for message in ("stopped early", "ends before the first choice"):
            with pytest.raises(ServiceError, match=message):
                await collect(chat)


async def test_calls_without_a_name_or_arguments_do_not_break_the_next_request() -> None:
    parts = [{"index": 0, "id": "a", "function": {"arguments": "{}"}}, {"index": 1, "function": {"name": "look"}}, {}]
    end: dict[str, Any] = {"delta": {}, "finish_reason": "tool_calls"}
    async with mock_endpoint(raw_stream({"delta": {"tool_calls": parts}}, end), reply("ok")) as (server, chat):
        calls = [delta async for delta in chat.stream(HELLO)][-1].calls
        assert calls == (ToolCall("a", "unnamed", "{}"), ToolCall("call_2", "look", "{}"))
        invented = {"id": "b", "name": "find.it " * 20, "arguments": ""}
        await chat.complete(ChatRequest("", ({"role": "assistant", "content": "", "tool_calls": [invented]},)))
        (sent,) = server.requests[1].body["messages"][0]["tool_calls"]
    assert sent["function"]["name"].startswith("find_it_find_it")
    assert len(sent["function"]["name"]) == 64
    assert sent["function"]["arguments"] == "{}"


@each_row(
    "failure",
    [reply("a", "b", **how) for how in ({"cut_after": 1}, {"cut_after": 1, "cut": "quiet"}, {"error_after": 1})],
)
async def test_an_interrupted_stream_yields_its_chunks_then_an_error(failure: Reply) -> None:
    texts: list[str] = []
    async with mock_endpoint(failure, max_retries=3) as (server, chat):
        with pytest.raises(ServiceError) as caught:
            await collect_text(chat, texts)
    assert (texts, len(server.requests)) == (["a"], 1), "it is not tried again after its first chunk"
    assert caught.value.is_retryable


async def test_an_unreachable_endpoint_is_a_retryable_error() -> None:
    async with MockLLM() as server:
        address = server.base_url
    endpoint = Endpoint("Test", ProviderSettings(address.replace("//", "//me:secret@"), KEY, max_retries=0))
    chat = OpenAIChat("m", endpoint, ModelSettings(1))
    with pytest.raises(ServiceError, match="cannot be reached") as caught:
        await chat.complete(HELLO)
    assert caught.value.is_retryable
    assert f"at {address}, or" in str(caught.value)
    assert "secret" not in str(caught.value)
    await endpoint.aclose()


async def test_answers_and_streams_time_out() -> None:
    async with mock_endpoint(reply("ok", delay_s=5), timeout_s=0.1) as (_, chat):
        for call in (chat.complete(HELLO), collect(chat)):
            with pytest.raises(ServiceError, match="in time"):
                await call
    texts: list[str] = []
    async with mock_endpoint(reply("a", "b", piece_delay_s=5), idle_timeout_s=0.1) as (_, chat):
        with pytest.raises(ServiceError, match="in time"):
            await collect_text(chat, texts)
    assert texts == ["a"]
    async with mock_endpoint(reply(*"a" * 100, piece_delay_s=0.02), timeout_s=0.3) as (_, chat):
        with pytest.raises(ServiceError, match="in time"):
            await collect(chat)


async def test_the_time_the_reader_takes_does_not_count() -> None:
    async with mock_endpoint(reply("a", "b"), timeout_s=0.5) as (_, chat):
        texts: list[str] = []
        async for delta in chat.stream(HELLO):
            texts += [delta.text] if delta.text else []
            await asyncio.sleep(0.3)
    assert texts == ["a", "b"]


async def test_others_have_their_turns_while_the_pieces_that_came_together_are_read() -> None:
    """A model that streamed 2 MB in pieces of 5 bytes delayed all other turns by seconds."""

    class Hasty:
        def __init__(self, **options: Any) -> None: ...

        async def astream(self, messages: Any, **options: Any) -> AsyncGenerator[AIMessageChunk]:
            for _ in range(40):
                time.sleep(0.002)  # as long as a client needs for a few
                yield AIMessageChunk(content="a")
            yield AIMessageChunk(content="", response_metadata={"finish_reason": "stop"})

    turns = list[int]()

    async def take_turns() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append(len(texts))

    texts = list[str]()
    other = asyncio.create_task(take_turns())
    await collect_text(OpenAIChat("m", Endpoint("Test", ProviderSettings(), Hasty), ModelSettings()), texts)
    other.cancel()
    assert len(texts) == 40
    assert len({count for count in turns if 0 < count < 40}) >= 5


async def test_a_cancelled_call_is_cancelled_not_failed() -> None:
    async with mock_endpoint(reply("ok", delay_s=5)) as (server, chat):
        task = asyncio.create_task(chat.complete(HELLO))
        await asyncio.wait_for(server.received_request.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_all_models_of_an_endpoint_share_its_connections() -> None:
    async with mock_endpoint() as (server, _):
        endpoint = Endpoint("Test", ProviderSettings(server.base_url))
        for number in range(70):
            await endpoint.chat(f"m{number}")
        assert (await OpenAIChat("m0", endpoint, ModelSettings(1)).complete(HELLO)).text == "ok"
        assert server.requests[0].body["model"] == "m0"
        await endpoint.aclose()
        await endpoint.aclose()


CALLS = [
    {"id": "call_1", "name": "look", "arguments": {"q": "a long one"}},
    {"id": "call_2", "name": "look", "arguments": "no json"},
]
TOOL = ToolSchema("look", "Look it up.", {"type": "object", "properties": {"q": {"type": "string"}}})


async def test_tools_are_sent_and_calls_are_merged_from_chunks() -> None:
    request = ChatRequest(
        "",
        (
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "look", "arguments": "{}"}]},
            {"role": "tool", "tool_call_id": "c", "content": "found"},
        ),
        tools=(TOOL,),
        stop=("Observation",),
        schema={"type": "object"},
    )
    async with mock_endpoint(reply("so ", calls=CALLS, cut_names=2, cut_arguments=5)) as (server, known):
        chat = OpenAIChat("m", known.endpoint, ModelSettings(100, has_schemas=True))
        whole = await chat.complete(request)
        pieces = [delta async for delta in chat.stream(request)]
    expected = [ToolCall("call_1", "look", '{"q": "a long one"}'), ToolCall("call_2", "look", "no json")]
    assert list(whole.calls) == list(pieces[-1].calls) == expected
    assert "".join(piece.text for piece in pieces) == whole.text == "so "
    body = server.requests[0].body
    assert body["tools"] == [
        {"type": "function", "function": {"name": "look", "description": "Look it up.", "parameters": TOOL.parameters}}
    ]
    assert body["messages"][1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    }
    assert body["messages"][2] == {"role": "tool", "tool_call_id": "c", "content": "found"}
    assert body["stop"] == ["Observation"]
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


async def test_calls_without_an_index_are_not_merged() -> None:
    calls = [{**call, "has_index": False} for call in CALLS]
    async with mock_endpoint(reply(calls=calls)) as (_, chat):
        last = [delta async for delta in chat.stream(HELLO)][-1]
    assert [call.id for call in last.calls] == ["call_1", "call_2"]


async def test_too_many_calls_are_an_error() -> None:
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "look", "arguments": "{}"}} for n in range(600)]
    async with mock_endpoint(raw_stream({"delta": {"tool_calls": calls}})) as (_, chat):
        with pytest.raises(ServiceError, match="sent more than 512 tool calls in one answer"):
            await collect(chat)


async def test_usage_has_token_counts_and_cost() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 500}
    async with mock_endpoint(reply("a", usage=usage)) as (server, chat):
        whole = (await chat.complete(HELLO)).usage
        total = [delta async for delta in chat.stream(HELLO)][-1].usage
    assert whole == total == Usage(1000, 500, 1, 0.002)
    assert server.requests[1].body["stream_options"] == {"include_usage": True}
    async with mock_endpoint(counts_streams=False) as (server, chat):
        assert [delta async for delta in chat.stream(HELLO)][-1].usage == Usage(calls=1)
        assert "stream_options" not in server.requests[0].body


async def test_a_request_is_not_retried_after_hours() -> None:
    busy = reply(status=429, error="tomorrow", retry_after=36000)
    async with mock_endpoint(busy, max_retries=3) as (server, chat):
        with pytest.raises(ServiceError, match="tomorrow"):
            await chat.complete(HELLO)
        assert len(server.requests) == 1


async def test_no_more_calls_than_allowed_run_at_a_time() -> None:
    async with mock_endpoint(reply("ok", delay_s=0.05), concurrency=2) as (server, chat):
        tasks = [asyncio.create_task(chat.complete(HELLO)) for _ in range(6)]
        await asyncio.sleep(0.04)
        assert len(server.requests) <= 2
        await asyncio.gather(*tasks)
        assert len(server.requests) == 6


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
ASKED = replace(HELLO, schema=SCHEMA)


async def test_a_schema_is_sent_until_the_server_refuses_it() -> None:
    refusal = reply(status=400, error="response_format is not supported")
    async with mock_endpoint(refusal, reply("one"), reply("two"), reply("three")) as (server, chat):
        assert (await chat.complete(ASKED)).text == "one"
        assert (await chat.complete(ASKED)).text == "two"
        assert ["response_format" in request.body for request in server.requests] == [True, False, False]
        assert (await OpenAIChat("other", chat.endpoint, ModelSettings(None)).complete(ASKED)).text == "three"
        assert "response_format" in server.requests[-1].body


async def test_a_refusal_with_another_cause_is_not_remembered() -> None:
    broken = reply(status=400, error="no such model")
    async with mock_endpoint(broken, broken, reply("ok")) as (server, chat):
        with pytest.raises(ServiceError, match="no such model"):
            await chat.complete(ASKED)
        await chat.complete(ASKED)
        assert ["response_format" in request.body for request in server.requests] == [True, False, True]


async def test_the_setting_decides_whether_a_schema_is_sent() -> None:
    async with mock_endpoint(reply(status=400, error="no"), reply("ok")) as (_, chat):
        forced = OpenAIChat("m", chat.endpoint, ModelSettings(None, has_schemas=True))
        assert (forced.has_schemas, forced.tries_schemas) == (True, False)
        with pytest.raises(ServiceError):
            await forced.complete(ASKED)
        never = OpenAIChat("m", chat.endpoint, ModelSettings(None, has_schemas=False))
        assert (never.has_schemas, never.tries_schemas) == (False, False)


async def test_no_schema_is_sent_with_tools_unless_the_setting_says_so() -> None:
    async with mock_endpoint() as (server, chat):
        await chat.complete(replace(ASKED, tools=(TOOL,)))
        assert "response_format" not in server.requests[0].body


@each_row(
    ("status", "refusal", "setting"),
    [
        (400, "This model does not support tools", '[models."m@Test"] has_tools = false'),
        (400, "response_format is not supported", '[models."m@Test"] has_schemas = false'),
        (400, "unknown field stream_options", "[providers.Test] counts_streams = false"),
        (400, "Unsupported value: 'top_p' does not support 0.5 with this model.", "Switch this parameter off in the"),
        (400, "max_tokens is too large: 128000", "sends_max_tokens of the model from the settings"),
    ],
)
async def test_a_refusal_names_the_setting_that_avoids_it(status: int, refusal: str, setting: str) -> None:
    refusals = [reply(status=status, error=refusal)] * 2
    async with mock_endpoint(*refusals, max_retries=3) as (server, known):
        chat = OpenAIChat("m", known.endpoint, ModelSettings(has_schemas=True))
        with pytest.raises(ServiceError, match=re.escape(setting)) as failure:
            await chat.complete(ASKED)
        assert refusal in str(failure.value)
        assert len(server.requests) == 1  # a refusal is not retried
        name = setting.partition("] ")[2].partition(" = ")[0]
        assert not setting.startswith("[models") or getattr(known.abilities, name) is False
        said = OpenAIChat("m", known.endpoint, ModelSettings(has_vision=True, has_tools=True, has_schemas=True))
        assert (said.has_vision, said.has_tools, said.has_schemas) == (True, True, True)


@pytest.mark.parametrize("is_streamed", [False, True])
@each_row(
    ("status", "refusal", "again", "is_remembered"),
    [
        (500, "image input is not supported", None, True),
        (500, "image input is not supported", reply("ready"), False),
        (400, "This model does not support images.", reply(status=429, error="busy"), False),
        (400, "You uploaded an unsupported image.", None, False),
    ],
)
async def test_no_image_is_taken_if_a_plain_one_is_refused_as_well(
    status: int, refusal: str, again: Reply | None, is_remembered: bool, is_streamed: bool
) -> None:
    refused = reply(status=status, error=refusal)
    async with mock_endpoint(refused, again or refused, concurrency=1) as (server, chat):
        asked = replace(HELLO, images=("data:image/png;base64,AA==",))
        with pytest.raises(ServiceError) as failure:
            await (chat.complete(asked) if not is_streamed else anext(aiter(chat.stream(asked))))
        assert ('[models."m@Test"] has_vision = false' in str(failure.value)) == ("unsupported" not in refusal)
        assert chat.has_vision != is_remembered
        assert len(server.requests) == 1 + ("unsupported" not in refusal)


async def test_a_server_is_asked_again_for_what_it_did_not_tell_and_later_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        status, window = answers.pop(0)
        return httpx.Response(status, json={"data": [{"id": "m", "max_model_len": window}]})

    answers = [(503, 0), (200, 4096), (200, 2048), (503, 0)]
    endpoint = Endpoint("Test", ProviderSettings("http://server.test/v1"))
    chat = OpenAIChat("m", endpoint, ModelSettings())
    monkeypatch.setattr(openai_chat, "time", SimpleNamespace(monotonic=lambda: now))
    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as connections:
        monkeypatch.setattr(endpoint, "_open_connections", lambda: connections)
        told: list[int] = []
        for now in (100, 159, 161, 700, 762, 1363):  # noqa: B007 - the clock reads it
            await chat.learn()
            told.append(chat.context_tokens)
        assert (told, answers) == ([128_000, 128_000, 4096, 4096, 2048, 2048], [])
        endpoint.remember("m", Abilities(1024))
        now, answers = 1424, [(200, 4096)]
        await chat.learn()
        assert (chat.context_tokens, answers) == (1024, [])  # what was refused stays


async def test_a_refusal_for_length_names_the_setting_and_the_window() -> None:
    text = "request (4111 tokens) exceeds the available context size (2048 tokens)"
    for refusal in (reply(status=400, error=text), reply(status=400, garbage=json.dumps({"error": text}))):
        async with mock_endpoint(refusal) as (_, known):
            chat = OpenAIChat("m", known.endpoint, ModelSettings(None))
            before = chat.context_tokens
            with pytest.raises(ServiceError, match=re.escape('Set [models."m@Test"] context_tokens = 2048')):
                await chat.complete(HELLO)
            assert (before, chat.context_tokens, known.context_tokens) == (128_000, 2048, 100)
