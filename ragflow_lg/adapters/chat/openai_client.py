"""The LangChain client class for OpenAI-compatible endpoints. Importing this module takes about a second."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import openai
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import SecretStr

from ragflow_lg.adapters.chat.openai_messages import CALLS, normalize_answer, normalize_chunk, read_reasoning
from ragflow_lg.adapters.http.answer_limits import LimitedClient
from ragflow_lg.adapters.http.certificates import trusted_certificates

REASONING = "reasoning_content"
"""``additional_kwargs`` key for a chunk's reasoning text."""

_DONE = b"[DONE]"
_DONE_LINE = re.compile(rb"(?:^|\n)data: ?\[DONE\]")
_DONE_CHARS = 13
"""Length of that line with the preceding line break: a chunk may end inside it."""


class _Body(httpx.AsyncByteStream):
    """The body of a streamed answer; records the final ``[DONE]`` line, which OpenAI's client does not expose."""

    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body
        self.has_ended = False
        """Whether the server has marked the end of the answer."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        tail = b""
        async for chunk in self._body:
            window = tail + chunk
            if _DONE in window and _DONE_LINE.search(window):
                self.has_ended = True
            tail = window[-_DONE_CHARS:]
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class _Chunks:
    """A streamed answer in OpenAI's format. ``[DONE]`` counts as a finish reason if the server sends no reason."""

    def __init__(self, stream: openai.AsyncStream[Any]) -> None:
        self._stream = stream
        response: Any = stream.response
        self._body = response.stream = _Body(response.stream)

    async def __aenter__(self) -> _Chunks:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stream.close()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        has_reason = has_choice = False
        async for item in self._stream:
            value = item.model_dump(warnings=False) if isinstance(item, openai.BaseModel) else item
            chunk = normalize_chunk(value)
            has_choice = has_choice or bool(chunk["choices"])
            has_reason = has_reason or any(choice.get("finish_reason") for choice in chunk["choices"])
            yield chunk
        if not has_choice:
            raise ValueError("it ends before the first choice")
        if self._body.has_ended and not has_reason:
            yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


class _Completions:
    """OpenAI's chat completions, with streamed answers in OpenAI's format."""

    def __init__(self, completions: Any) -> None:
        self._completions = completions
        self.with_raw_response = completions.with_raw_response

    async def create(self, **payload: Any) -> _Chunks:
        return _Chunks(await self._completions.create(**payload))


class EndpointChat(BaseChatOpenAI):
    """``ChatOpenAI`` for any endpoint: keeps the name ``max_tokens`` and streamed reasoning text.

    ``ChatOpenAI`` itself renames ``max_tokens``, which other servers do not support, and drops reasoning text. Answers
    are normalized, or a `ValueError` says what is wrong with them.
    """

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        value = response.model_dump(warnings=False) if isinstance(response, openai.BaseModel) else response
        answer, calls = normalize_answer(value)
        result: ChatResult = cast("Any", super())._create_chat_result(answer, generation_info)
        kwargs = result.generations[0].message.additional_kwargs
        kwargs[CALLS] = calls
        kwargs[REASONING] = read_reasoning(answer["choices"][0]["message"])
        return result

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        convert = cast("Any", super())._convert_chunk_to_generation_chunk
        generated: ChatGenerationChunk | None = convert(chunk, default_chunk_class, base_generation_info)
        if generated is not None and (reasoning := _reasoning_in(chunk)):
            generated.message.additional_kwargs[REASONING] = reasoning
        return generated


def _reasoning_in(chunk: dict[str, Any]) -> str:
    choices = cast("list[dict[str, Any]]", chunk["choices"] or [{}])
    delta = cast("dict[str, Any]", choices[0].get("delta") or {})
    return read_reasoning(delta)


def open_connections(timeout_s: float) -> httpx.AsyncClient:
    """Create a connection pool, that the caller must close. Redirects are errors: they could send the key elsewhere."""
    return LimitedClient(verify=trusted_certificates(), timeout=timeout_s, follow_redirects=False)


def make_chat(
    model: str, connections: httpx.AsyncClient, *, base_url: str, api_key: str, timeout_s: float, counts_streams: bool
) -> EndpointChat:
    """Create the client for one model, with retries disabled: `OpenAIChat` honours the endpoint's retry-after."""
    chat = EndpointChat(
        model=model,
        base_url=base_url,
        api_key=SecretStr(api_key or "none"),
        timeout=timeout_s,
        max_retries=0,
        stream_usage=counts_streams,
        stream_chunk_timeout=None,
        use_responses_api=False,
        http_async_client=connections,
    )
    chat.async_client = _Completions(chat.async_client)
    return chat
