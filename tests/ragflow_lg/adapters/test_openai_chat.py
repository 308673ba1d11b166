from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest

from ragflow_lg.adapters.openai_chat import Endpoint, OpenAIChat
from ragflow_lg.errors import ServiceError
from ragflow_lg.services import ChatDelta, ChatRequest
from tests.fakes.openai_server import Answer, OpenAIServer

KEY = "sk-0123456789abcdef"
HELLO = ChatRequest("Be kind.", ({"role": "user", "content": "hello"},))


@asynccontextmanager
async def served(*answers: Answer, model: str = "m", **limits: Any) -> AsyncGenerator[tuple[OpenAIServer, OpenAIChat]]:
    async with OpenAIServer(list(answers) or [Answer()]) as server:
        endpoint = Endpoint("Test", server.base_url, KEY, **limits)
        try:
            yield server, OpenAIChat(model, endpoint, context_tokens=100, has_vision=True)
        finally:
            await endpoint.aclose()


async def collect(chat: OpenAIChat) -> list[ChatDelta]:
    return [delta async for delta in chat.stream(HELLO)]


async def collect_text(chat: OpenAIChat, got: list[str]) -> None:
    async for delta in chat.stream(HELLO):
        got.append(delta.text)


async def test_complete_sends_the_request_and_gives_the_answer() -> None:
    async with served(Answer(["good ", "day"], reasoning=["hm"])) as (server, chat):
        assert await chat.complete(HELLO) == "good day"
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
    async with served(Answer([])) as (_, chat):
        assert await chat.complete(HELLO) == ""
        assert await collect(chat) == []


async def test_stream_gives_pieces_as_they_are_and_marks_reasoning() -> None:
    async with served(Answer(["ha", "ha", "!"], reasoning=["let ", "me"])) as (server, chat):
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
    chat = OpenAIChat("m", Endpoint("OpenAI", "https://api.openai.com/v1", KEY), context_tokens=1, has_vision=True)
    options = cast("Any", chat)._options(ChatRequest("", (), sampling={"max_tokens": 7}))
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
    body = {"error": {"message": f"no luck with {KEY}", "type": "x"}}
    async with served(Answer(status=status, body=body)) as (server, chat):
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
    async with served(Answer(status=400, body="<html>" + "x" * 5000)) as (_, chat):
        with pytest.raises(ServiceError) as caught:
            await chat.complete(HELLO)
    assert len(str(caught.value)) <= 400


@pytest.mark.parametrize(
    "body", ["surprise", {"choices": None}, {"choices": []}, {"error": {"message": "odd"}}, [1], "{"]
)
async def test_an_answer_in_another_form_is_a_service_error(body: Any) -> None:
    async with served(Answer(body=body)) as (_, chat):
        with pytest.raises(ServiceError, match="'m' of Test"):
            await chat.complete(HELLO)


@pytest.mark.parametrize("answer", [Answer(["a", "b"], break_after=1), Answer(["a", "b"], error_after=1)])
async def test_a_stream_that_breaks_gives_its_pieces_then_an_error(answer: Answer) -> None:
    got: list[str] = []
    async with served(answer) as (_, chat):
        with pytest.raises(ServiceError) as caught:
            await collect_text(chat, got)
    assert got == ["a"]
    assert caught.value.is_retryable


async def test_an_endpoint_that_is_not_there_is_a_retryable_error() -> None:
    async with OpenAIServer() as server:
        gone = server.base_url
    endpoint = Endpoint("Test", gone, KEY)
    chat = OpenAIChat("m", endpoint, context_tokens=1, has_vision=True)
    with pytest.raises(ServiceError, match="cannot be reached") as caught:
        await chat.complete(HELLO)
    assert caught.value.is_retryable
    await endpoint.aclose()


async def test_a_slow_endpoint_is_given_up() -> None:
    async with served(Answer(delay_s=5), timeout_s=0.1) as (_, chat):
        for call in (chat.complete(HELLO), collect(chat)):
            with pytest.raises(ServiceError, match="in time"):
                await call


async def test_a_stream_that_stalls_is_given_up() -> None:
    got: list[str] = []
    async with served(Answer(["a", "b"], piece_delay_s=5), idle_timeout_s=0.1) as (_, chat):
        with pytest.raises(ServiceError, match="in time"):
            await collect_text(chat, got)
    assert got == ["a"]


async def test_a_stream_without_end_is_given_up() -> None:
    async with served(Answer(["a"] * 100, piece_delay_s=0.02), timeout_s=0.3) as (_, chat):
        with pytest.raises(ServiceError, match="in time"):
            await collect(chat)


async def test_waiting_for_the_reader_does_not_count() -> None:
    async with served(Answer(["a", "b", "c"]), timeout_s=0.5) as (_, chat):
        got: list[str] = []
        async for delta in chat.stream(HELLO):
            got.append(delta.text)
            await asyncio.sleep(0.3)
    assert got == ["a", "b", "c"]


async def test_a_reader_that_leaves_ends_the_request() -> None:
    async with served(Answer(["a"] * 1000, piece_delay_s=0.01)) as (server, chat):
        async with aclosing(cast("Any", chat.stream(HELLO))) as stream:
            await anext(stream)
        await asyncio.wait_for(server.was_cut.wait(), 5)


async def test_a_cancelled_call_is_cancelled_not_failed() -> None:
    async with served(Answer(delay_s=5)) as (server, chat):
        task = asyncio.create_task(chat.complete(HELLO))
        await asyncio.wait_for(server.was_asked.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_many_models_share_the_connections_of_an_endpoint() -> None:
    async with served() as (server, _):
        endpoint = Endpoint("Test", server.base_url, "")
        for number in range(70):
            await endpoint.chat(f"m{number}")
        assert await OpenAIChat("m0", endpoint, context_tokens=1, has_vision=True).complete(HELLO) == "ok"
        assert server.requests[0].body["model"] == "m0"
        await endpoint.aclose()
        await endpoint.aclose()
