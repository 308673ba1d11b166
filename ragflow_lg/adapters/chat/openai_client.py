"""The client class for OpenAI-compatible endpoints. Importing this module takes about a second."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import openai
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import SecretStr

from ragflow_lg.adapters.chat.completion_request import CALLS, answer_in_form, chunk_in_form

__all__ = ["REASONING", "EndpointChat", "make_chat", "open_connections"]

REASONING = "reasoning_content"
"""Key of ``additional_kwargs`` that holds the reasoning of a chunk."""

_REASONING_NAMES = (REASONING, "reasoning")
_DONE = b"[DONE]"
_DONE_LINE = re.compile(rb"(?:^|\n)data: ?\[DONE\]")
_DONE_CHARS = 13
"""How much of that line, with the break before it, may stand at the end of a piece."""


class _Body(httpx.AsyncByteStream):
    """The body of a streamed answer, watched for its last line, which OpenAI's client keeps to itself."""

    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body
        self.is_done = False
        """Whether the server has said that there is no more."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        tail = b""
        async for piece in self._body:
            near = tail + piece
            if _DONE in near and _DONE_LINE.search(near):
                self.is_done = True
            tail = near[-_DONE_CHARS:]
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


class _Pieces:
    """A streamed answer, in OpenAI's form. One that ends with ``[DONE]`` is whole also where it gives no reason."""

    def __init__(self, stream: openai.AsyncStream[Any]) -> None:
        self._stream = stream
        response: Any = stream.response
        self._body = response.stream = _Body(response.stream)

    async def __aenter__(self) -> _Pieces:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stream.close()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        has_reason = has_choice = False
        async for piece in self._stream:
            value = piece.model_dump(warnings=False) if isinstance(piece, openai.BaseModel) else piece
            chunk = chunk_in_form(value)
            has_choice = has_choice or bool(chunk["choices"])
            has_reason = has_reason or any(choice.get("finish_reason") for choice in chunk["choices"])
            yield chunk
        if not has_choice:
            raise ValueError("it ends before anything was said")
        if self._body.is_done and not has_reason:
            yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


class _Completions:
    """OpenAI's client for chats, of whose streams only what is in form comes out."""

    def __init__(self, completions: Any) -> None:
        self._completions = completions
        self.with_raw_response = completions.with_raw_response

    async def create(self, **payload: Any) -> _Pieces:
        return _Pieces(await self._completions.create(**payload))


class EndpointChat(BaseChatOpenAI):
    """``ChatOpenAI`` for any endpoint: ``max_tokens`` keeps its name, and streamed reasoning is not lost.

    ``ChatOpenAI`` itself renames the one, which other servers do not know, and drops the other. What is not in OpenAI's
    form is mended, or a `ValueError` says what is odd.
    """

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        value = response.model_dump(warnings=False) if isinstance(response, openai.BaseModel) else response
        answer, calls = answer_in_form(value)
        result: ChatResult = cast("Any", super())._create_chat_result(answer, generation_info)
        result.generations[0].message.additional_kwargs[CALLS] = calls
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
    return next((delta[name] for name in _REASONING_NAMES if isinstance(delta.get(name), str)), "")


def open_connections(timeout_s: float) -> httpx.AsyncClient:
    """Open a pool of connections, which the caller closes. Redirects are errors: they would carry the key elsewhere."""
    return httpx.AsyncClient(timeout=timeout_s, follow_redirects=False)


def make_chat(
    model: str,
    connections: httpx.AsyncClient,
    *,
    base_url: str,
    api_key: str,
    timeout_s: float,
    counts_streams: bool,
) -> EndpointChat:
    """Make the client of one model. It never tries again by itself: only we heed how long the endpoint asks to wait."""
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
