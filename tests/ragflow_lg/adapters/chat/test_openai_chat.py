from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest

from ragflow_lg.adapters.chat.openai_chat import Capabilities, Endpoint, OpenAIChat
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.server.devtools.mock_llm.rules import Reply
from ragflow_lg.services.chat import ChatDelta, ChatRequest, ToolCall, ToolSchema, Usage
from tests.fakes.mock_llm import MockLLM, reply

KEY = "sk-0123456789abcdef"
HELLO = ChatRequest("Be kind.", ({"role": "user", "content": "hello"},))


@asynccontextmanager
async def served(*replies: Reply, model: str = "m", **limits: Any) -> AsyncGenerator[tuple[MockLLM, OpenAIChat]]:
    async with MockLLM(replies or [reply("ok", usage=False)]) as server:
        endpoint = Endpoint("Test", server.base_url, KEY, **{"max_retries": 0, **limits})
        try:
            yield server, OpenAIChat(model, endpoint, Capabilities(100, input_price=1.0, output_price=2.0))
        finally:
            await endpoint.aclose()


async def collect(chat: OpenAIChat) -> list[ChatDelta]:
    return [delta async for delta in chat.stream(HELLO) if delta.text]


async def collect_text(chat: OpenAIChat, got: list[str]) -> None:
    async for delta in chat.stream(HELLO):
        got += [delta.text] if delta.text else []


async def test_complete_sends_the_request_and_gives_the_answer() -> None:
    async with served(reply("good ", "day", reasoning=["hm"])) as (server, chat):
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


async def test_an_empty_answer_is_an_answer() -> None:
    async with served(reply()) as (_, chat):
        assert (await chat.complete(HELLO)).text == ""
        assert await collect(chat) == []


async def test_stream_gives_pieces_as_they_are_and_marks_reasoning() -> None:
    async with served(reply("ha", "ha", "!", reasoning=["let ", "me"])) as (server, chat):
        assert await collect(chat) == [
            ChatDelta("let ", is_thinking=True),
            ChatDelta("me", is_thinking=True),
            ChatDelta("ha"),
            ChatDelta("ha"),
            ChatDelta("!"),
        ]
        assert server.requests[0].body["stream"] is True


async def test_options_reach_the_endpoint_under_the_names_it_knows() -> None:
    request = ChatRequest(
        "",
        ({"role": "user", "content": "q"},),
        sampling={"temperature": 0.0, "top_p": 0.5, "max_tokens": 7},
        thinking="enabled",
        template_kwargs={"enable_thinking": False},
    )
    async with served() as (server, chat):
        await chat.complete(request)
        body = server.requests[0].body
    assert body["messages"] == [{"role": "user", "content": "q"}]
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.0, 0.5, 7)
    assert body["thinking"] == {"type": "enabled"}
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_openai_itself_gets_the_newer_name_of_max_tokens() -> None:
    chat = OpenAIChat("m", Endpoint("OpenAI", "https://api.openai.com/v1", KEY), Capabilities(1))
    options = chat.options(ChatRequest("", (), sampling={"max_tokens": 7}))
    assert options == {"max_completion_tokens": 7}


async def test_images_go_with_the_last_user_message() -> None:
    messages = (
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    )
    async with served() as (server, chat):
        await chat.complete(ChatRequest("", messages, images=("data:image/png;base64,AA==",)))
        sent = server.requests[0].body["messages"]
    assert sent[:2] == list(messages[:2])
    assert sent[2]["content"] == [
        {"type": "text", "text": "c"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


async def test_images_without_a_user_message_are_left_out() -> None:
    messages = ({"role": "assistant", "content": "b"},)
    async with served() as (server, chat):
        await chat.complete(ChatRequest("", messages, images=("data:image/png;base64,AA==",)))
        assert server.requests[0].body["messages"] == list(messages)


@pytest.mark.parametrize(
    ("status", "is_retryable"), [(400, False), (401, False), (307, False), (429, True), (500, True)]
)
async def test_a_refusal_names_status_and_reason_but_never_the_key(status: int, is_retryable: bool) -> None:
    async with served(reply(status=status, error=f"no luck with {KEY}")) as (server, chat):
        for call in (chat.complete(HELLO), collect(chat)):
            with pytest.raises(ServiceError) as caught:
                await call
            text = str(caught.value)
            assert f"'m' of Test answered {status}" in text
            assert "no luck with ***" in text
            assert KEY not in text
            assert caught.value.is_retryable is is_retryable
        assert len(server.requests) == 2, "the client must not try again by itself"


async def test_a_long_refusal_is_shortened() -> None:
    async with served(reply(status=400, garbage="<html>" + "x" * 5000)) as (_, chat):
        with pytest.raises(ServiceError) as caught:
            await chat.complete(HELLO)
    assert len(str(caught.value)) <= 400


@pytest.mark.parametrize(
    "body", ["surprise", '{"choices": null}', '{"choices": []}', '{"error": {"message": "odd"}}', "[1]", "{"]
)
async def test_an_answer_in_another_form_is_a_service_error(body: str) -> None:
    async with served(reply(garbage=body)) as (_, chat):
        with pytest.raises(ServiceError, match="'m' of Test"):
            await chat.complete(HELLO)


def streamed(*chunks: dict[str, Any], end: str = "data: [DONE]\n\n") -> Reply:
    """Give a reply of these chunks as they are."""
    return Reply(garbage="".join(f"data: {json.dumps({'choices': [chunk]})}\n\n" for chunk in chunks) + end)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Reply(garbage="[" * 100_000), "it is nested too deep"),
        (Reply(garbage="{"), "it is no JSON|it ends before anything was said"),
        (
            Reply(garbage='{"choices": [{"message": {"content": 5}, "delta": {"content": 5}}]}'),
            "its content is a number",
        ),
    ],
)
async def test_an_odd_answer_is_told_in_one_sentence(given: Reply, says: str) -> None:
    streaming = Reply(garbage=f"data: {given.garbage}\n\n")
    async with served(given, streaming) as (_, chat):
        for call in (chat.complete(HELLO), collect(chat)):
            with pytest.raises(ServiceError) as caught:
                await call
            assert re.fullmatch(
                f"The model 'm' of Test gave an answer that is not in OpenAI's form: ({says})", str(caught.value)
            )


async def test_a_stream_is_whole_if_it_gives_a_reason_or_ends_with_done() -> None:
    said, ended = {"delta": {"content": "a [DONE] "}}, {"delta": {}, "finish_reason": "stop"}
    async with served(streamed(said), streamed(said, ended, end="")) as (_, chat):
        assert [await collect(chat) for _ in range(2)] == [[ChatDelta("a [DONE] ")]] * 2
    async with served(streamed(said, end=""), streamed()) as (_, chat):
        for says in ("broke off", "ends before anything was said"):
            with pytest.raises(ServiceError, match=says):
                await collect(chat)


async def test_calls_without_a_name_or_arguments_do_not_break_the_next_request() -> None:
    parts = [{"index": 0, "id": "a", "function": {"arguments": "{}"}}, {"index": 1, "function": {"name": "look"}}, {}]
    ended = {"delta": {}, "finish_reason": "tool_calls"}
    async with served(streamed({"delta": {"tool_calls": parts}}, ended), reply("ok")) as (server, chat):
        calls = [delta async for delta in chat.stream(HELLO)][-1].calls
        assert calls == (ToolCall("a", "unnamed", "{}"), ToolCall("call_2", "look", "{}"))
        made_up = {"id": "b", "name": "find.it " * 20, "arguments": ""}
        await chat.complete(ChatRequest("", ({"role": "assistant", "content": "", "tool_calls": [made_up]},)))
        (sent,) = server.requests[1].body["messages"][0]["tool_calls"]
    assert sent["function"]["name"].startswith("find_it_find_it")
    assert len(sent["function"]["name"]) == 64
    assert sent["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    "given",
    [reply("a", "b", **how) for how in ({"cut_after": 1}, {"cut_after": 1, "cut": "quiet"}, {"error_after": 1})],
)
async def test_a_stream_that_breaks_gives_its_pieces_then_an_error(given: Reply) -> None:
    got: list[str] = []
    async with served(given) as (_, chat):
        with pytest.raises(ServiceError) as caught:
            await collect_text(chat, got)
    assert got == ["a"]
    assert caught.value.is_retryable


async def test_an_endpoint_that_is_not_there_is_a_retryable_error() -> None:
    async with MockLLM() as server:
        gone = server.base_url
    endpoint = Endpoint("Test", gone.replace("//", "//me:secret@"), KEY, max_retries=0)
    chat = OpenAIChat("m", endpoint, Capabilities(1))
    with pytest.raises(ServiceError, match="cannot be reached") as caught:
        await chat.complete(HELLO)
    assert caught.value.is_retryable
    assert f"at {gone}, or" in str(caught.value)
    assert "secret" not in str(caught.value)
    await endpoint.aclose()


async def test_a_slow_endpoint_is_given_up() -> None:
    async with served(reply("ok", delay_s=5), timeout_s=0.1) as (_, chat):
        for call in (chat.complete(HELLO), collect(chat)):
            with pytest.raises(ServiceError, match="in time"):
                await call


async def test_a_stream_that_stalls_is_given_up() -> None:
    got: list[str] = []
    async with served(reply("a", "b", piece_delay_s=5), idle_timeout_s=0.1) as (_, chat):
        with pytest.raises(ServiceError, match="in time"):
            await collect_text(chat, got)
    assert got == ["a"]


async def test_a_stream_without_end_is_given_up() -> None:
    async with served(reply(*"a" * 100, piece_delay_s=0.02), timeout_s=0.3) as (_, chat):
        with pytest.raises(ServiceError, match="in time"):
            await collect(chat)


async def test_waiting_for_the_reader_does_not_count() -> None:
    async with served(reply("a", "b", "c"), timeout_s=0.5) as (_, chat):
        got: list[str] = []
        async for delta in chat.stream(HELLO):
            got += [delta.text] if delta.text else []
            await asyncio.sleep(0.3)
    assert got == ["a", "b", "c"]


async def test_a_reader_that_leaves_ends_the_request() -> None:
    async with served(reply(*"a" * 1000, piece_delay_s=0.01)) as (server, chat):
        async with aclosing(cast("Any", chat.stream(HELLO))) as stream:
            await anext(stream)
        await asyncio.wait_for(server.client_left.wait(), 5)


async def test_a_cancelled_call_is_cancelled_not_failed() -> None:
    async with served(reply("ok", delay_s=5)) as (server, chat):
        task = asyncio.create_task(chat.complete(HELLO))
        await asyncio.wait_for(server.received_request.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_many_models_share_the_connections_of_an_endpoint() -> None:
    async with served() as (server, _):
        endpoint = Endpoint("Test", server.base_url, "")
        for number in range(70):
            await endpoint.chat(f"m{number}")
        assert (await OpenAIChat("m0", endpoint, Capabilities(1)).complete(HELLO)).text == "ok"
        assert server.requests[0].body["model"] == "m0"
        await endpoint.aclose()
        await endpoint.aclose()


CALLS = [
    {"id": "call_1", "name": "look", "arguments": {"q": "a long one"}},
    {"id": "call_2", "name": "look", "arguments": "no json"},
]
TOOL = ToolSchema("look", "Look it up.", {"type": "object", "properties": {"q": {"type": "string"}}})


async def test_tools_are_offered_and_calls_come_back_whole_or_in_fragments() -> None:
    asked = ChatRequest(
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
    async with served(reply("so ", calls=CALLS, cut_names=2, cut_arguments=5)) as (server, chat):
        whole = await chat.complete(asked)
        pieces = [delta async for delta in chat.stream(asked)]
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


async def test_whole_calls_without_an_index_stay_apart() -> None:
    calls = [{**call, "has_index": False} for call in CALLS]
    async with served(reply(calls=calls)) as (_, chat):
        last = [delta async for delta in chat.stream(HELLO)][-1]
    assert [call.id for call in last.calls] == ["call_1", "call_2"]


async def test_usage_is_counted_with_its_price() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 500}
    async with served(reply("a", usage=usage)) as (server, chat):
        whole = (await chat.complete(HELLO)).usage
        streamed = [delta async for delta in chat.stream(HELLO)][-1].usage
    assert whole == streamed == Usage(1000, 500, 1, 0.002)
    assert server.requests[1].body["stream_options"] == {"include_usage": True}


async def test_a_server_that_counts_nothing_is_one_call() -> None:
    async with served(counts_streams=False) as (server, chat):
        assert [delta async for delta in chat.stream(HELLO)][-1].usage == Usage(calls=1)
        assert "stream_options" not in server.requests[0].body


async def test_what_fails_for_a_while_is_tried_again_as_late_as_the_endpoint_asks() -> None:
    busy = reply(status=429, error="slow down", retry_after=0.3)
    loop = asyncio.get_running_loop()
    for call in ("complete", "stream"):
        async with served(busy, reply(status=503), reply("fine"), max_retries=2) as (server, chat):
            began = loop.time()
            said = (await chat.complete(HELLO)).text if call == "complete" else (await collect(chat))[0].text
            assert said == "fine"
            assert loop.time() - began > 0.5  # what was asked for, and half of the second pause
            assert len(server.requests) == 3


async def test_an_endpoint_that_asks_for_hours_is_given_up() -> None:
    busy = reply(status=429, error="tomorrow", retry_after=36000)
    async with served(busy, max_retries=3) as (server, chat):
        with pytest.raises(ServiceError, match="tomorrow"):
            await chat.complete(HELLO)
        assert len(server.requests) == 1


async def test_a_stream_that_was_shown_is_not_tried_again() -> None:
    got: list[str] = []
    async with served(reply("a", "b", cut_after=1), max_retries=3) as (server, chat):
        with pytest.raises(ServiceError):
            await collect_text(chat, got)
    assert (got, len(server.requests)) == (["a"], 1)


async def test_no_more_calls_than_allowed_run_at_a_time() -> None:
    async with served(reply("ok", delay_s=0.05), concurrency=2) as (server, chat):
        running = [asyncio.create_task(chat.complete(HELLO)) for _ in range(6)]
        await asyncio.sleep(0.04)
        assert len(server.requests) <= 2
        await asyncio.gather(*running)
        assert len(server.requests) == 6
