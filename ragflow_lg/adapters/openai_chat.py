"""Chat models behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ragflow_lg.errors import ServiceError
from ragflow_lg.services import ChatDelta, ChatRequest

if TYPE_CHECKING:
    import httpx

    from ragflow_lg.adapters.openai_client import EndpointChat

__all__ = ["Endpoint", "OpenAIChat"]

_MAX_ERROR_CHARS = 400
_MIN_KEY_CHARS = 8
"""Shorter keys are placeholders; to take them out would maim the text."""
_MAX_CHATS = 64
_OPENAI_HOST = "api.openai.com"


class Endpoint:
    """An OpenAI-compatible endpoint: where it is, how long to wait for it, and its connections.

    ``timeout_s`` is for a whole answer, and for the first piece of a streamed one; waiting for the reader does not
    count. ``idle_timeout_s`` is for what passes between two pieces.
    """

    def __init__(
        self,
        provider: str,
        base_url: str,
        api_key: str = "",
        *,
        timeout_s: float = 600.0,
        idle_timeout_s: float = 120.0,
    ) -> None:
        self.provider = provider
        self.base_url = base_url
        self.timeout_s = timeout_s
        self.idle_timeout_s = idle_timeout_s
        self._api_key = api_key
        self._lock = asyncio.Lock()
        self._connections: httpx.AsyncClient | None = None
        self._chats: dict[str, EndpointChat] = {}

    async def chat(self, model: str) -> EndpointChat:
        """Give LangChain's client of a model. Its slow import happens in a thread."""
        async with self._lock:
            if model not in self._chats:
                if len(self._chats) >= _MAX_CHATS:
                    self._chats.clear()
                self._chats[model] = await asyncio.to_thread(self._make_chat, model)
            return self._chats[model]

    def _make_chat(self, model: str) -> EndpointChat:
        from ragflow_lg.adapters.openai_client import make_chat, open_connections

        if self._connections is None:
            self._connections = open_connections(self.timeout_s)
        return make_chat(
            model, self._connections, base_url=self.base_url, api_key=self._api_key, timeout_s=self.timeout_s
        )

    def redacted(self, text: str) -> str:
        """Take the key out of a text."""
        return text.replace(self._api_key, "***") if len(self._api_key) >= _MIN_KEY_CHARS else text

    async def aclose(self) -> None:
        """Close the connections."""
        connections, self._connections = self._connections, None
        self._chats.clear()
        if connections is not None:
            await connections.aclose()


class OpenAIChat:
    """A `ragflow_lg.services.ChatModel` over LangChain's client, which is imported on the first call."""

    def __init__(self, model: str, endpoint: Endpoint, *, context_tokens: int, has_vision: bool) -> None:
        self.model = model
        self.context_tokens = context_tokens
        self.has_vision = has_vision
        self._endpoint = endpoint

    async def complete(self, request: ChatRequest) -> str:
        """Give the whole answer, without a separate reasoning text."""
        chat = await self._endpoint.chat(self.model)
        with self._failures():
            async with asyncio.timeout(self._endpoint.timeout_s):
                return str((await chat.ainvoke(_messages(request), **self._options(request))).text)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the answer as it comes."""
        chat = await self._endpoint.chat(self.model)
        chunks = cast("Any", chat.astream(_messages(request), **self._options(request)))
        loop = asyncio.get_running_loop()
        left_s = limit_s = self._endpoint.timeout_s
        try:
            while True:
                began = loop.time()
                with self._failures():
                    async with asyncio.timeout(min(left_s, limit_s)):
                        chunk = await anext(chunks, None)
                if chunk is None:
                    break
                left_s -= loop.time() - began
                limit_s = self._endpoint.idle_timeout_s
                if reasoning := chunk.additional_kwargs.get("reasoning_content"):
                    yield ChatDelta(reasoning, is_thinking=True)
                if text := str(chunk.text):
                    yield ChatDelta(text)
        finally:
            await chunks.aclose()

    def _options(self, request: ChatRequest) -> dict[str, Any]:
        options: dict[str, Any] = dict(request.sampling)
        if "max_tokens" in options and urlsplit(self._endpoint.base_url).hostname == _OPENAI_HOST:
            # OpenAI's newer models refuse the old name, other servers do not know the new one.
            options["max_completion_tokens"] = options.pop("max_tokens")
        body: dict[str, Any] = {}
        if request.template_kwargs:
            body["chat_template_kwargs"] = dict(request.template_kwargs)
        if request.thinking:
            body["thinking"] = {"type": request.thinking}
        return {**options, "extra_body": body} if body else options

    @contextmanager
    def _failures(self) -> Generator[None]:
        """Turn whatever goes wrong on the way into a `ServiceError`, without the key."""
        import httpx
        import openai

        try:
            yield
        except TimeoutError:
            raise self._failure("did not answer in time", is_retryable=True) from None
        except openai.APIStatusError as error:
            status = error.status_code
            is_retryable = status in (408, 409, 429) or status >= 500
            raise self._failure(f"answered {status}: {_detail(error)}", is_retryable=is_retryable) from None
        except (openai.APIConnectionError, httpx.HTTPError) as error:
            cause = error.__cause__ or error
            raise self._failure(f"cannot be reached, or broke off: {cause}", is_retryable=True) from None
        except openai.OpenAIError as error:
            raise self._failure(f"failed: {_detail(error)}", is_retryable=True) from None
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise self._failure(f"gave an answer that is not in OpenAI's form: {error}") from None

    def _failure(self, what: str, *, is_retryable: bool = False) -> ServiceError:
        text = " ".join(f"The model {self.model!r} of {self._endpoint.provider} {what}".split())
        text = self._endpoint.redacted(text)
        text = text if len(text) <= _MAX_ERROR_CHARS else text[: _MAX_ERROR_CHARS - 1] + "…"
        return ServiceError(text, is_retryable=is_retryable)


def _messages(request: ChatRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [dict(message) for message in request.messages]
    if request.images:
        asked = next((m for m in reversed(messages) if m["role"] == "user"), None)
        if asked is not None:
            pictures = [{"type": "image_url", "image_url": {"url": image}} for image in request.images]
            asked["content"] = [{"type": "text", "text": asked["content"]}, *pictures]
    return [{"role": "system", "content": request.system}, *messages] if request.system else messages


def _detail(error: Any) -> str:
    """Give what the endpoint says of an error."""
    body = getattr(error, "body", None)
    told = cast("dict[str, Any]", body).get("message") if isinstance(body, dict) else body
    return str(told or getattr(error, "message", "") or error)
