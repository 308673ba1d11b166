"""The client class for OpenAI-compatible endpoints. Importing this module takes about a second."""

from __future__ import annotations

from typing import Any, cast

import httpx
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import SecretStr

__all__ = ["REASONING", "EndpointChat", "make_chat", "open_connections"]

REASONING = "reasoning_content"
"""Key of ``additional_kwargs`` that holds the reasoning of a chunk."""

_REASONING_NAMES = (REASONING, "reasoning")


class EndpointChat(BaseChatOpenAI):
    """``ChatOpenAI`` for any endpoint: ``max_tokens`` keeps its name, and streamed reasoning is not lost.

    ``ChatOpenAI`` itself renames the one, which other servers do not know, and drops the other.
    """

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        convert = cast("Any", super())._convert_chunk_to_generation_chunk
        generated: ChatGenerationChunk | None = convert(chunk, default_chunk_class, base_generation_info)
        if generated is not None and (reasoning := _reasoning_in(chunk)):
            generated.message.additional_kwargs[REASONING] = reasoning
        return generated


def _reasoning_in(chunk: dict[str, Any]) -> str:
    choices = cast("list[dict[str, Any]]", chunk.get("choices") or [{}])
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
    return EndpointChat(
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
