"""Chat models behind an OpenAI-compatible endpoint, by LangChain's client."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from msgspec import Struct

from ragflow_lg.adapters.chat.completion_request import CALLS
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatRequest, ToolCall, ToolSchema, Usage

if TYPE_CHECKING:
    import httpx

__all__ = ["Capabilities", "Endpoint", "MakeChat", "OpenAIChat", "function_of"]

MakeChat: TypeAlias = Callable[..., Any]
"""Makes a LangChain chat model from ``model``, ``base_url``, ``api_key`` and ``timeout_s``."""

logger = logging.getLogger(__name__)

_MAX_ERROR_CHARS = 400
_MIN_KEY_CHARS = 8
"""Shorter keys are placeholders; to take them out would maim the text."""
_MAX_CHATS = 64
_MAX_CALLS = 512
"""Calls in one streamed answer; whoever asks for more is cut off."""
_MAX_TOKENS = 10**9
"""Counts beyond it, and below 0, are no counts."""
_MAX_NAME_CHARS = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_UNNAMED = "unnamed"
"""Stands for the name of a call that has none; endpoints refuse a conversation with a blank one."""
_OPENAI_HOST = "api.openai.com"
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
"""An endpoint that asks for a longer one is given up."""


class Capabilities(Struct, frozen=True):
    """What a model can do, and what a million tokens cost."""

    context_tokens: int
    has_vision: bool = True
    has_tools: bool = True
    has_schemas: bool = False
    input_price: float = 0.0
    output_price: float = 0.0


class Endpoint:
    """An OpenAI-compatible endpoint: where it is, how long to wait for it, and its connections.

    ``timeout_s`` is for a whole answer, and for the first piece of a streamed one; waiting for the reader does not
    count. ``idle_timeout_s`` is for what passes between two pieces. A call that fails for a while only is tried again
    ``max_retries`` times, unless a piece has gone out. No more than ``concurrency`` calls run at a time.
    """

    def __init__(
        self,
        provider: str,
        base_url: str,
        api_key: str = "",
        *,
        timeout_s: float = 600.0,
        idle_timeout_s: float = 120.0,
        max_retries: int = 2,
        concurrency: int = 64,
        counts_streams: bool = True,
        make_chat: MakeChat | None = None,
    ) -> None:
        """``counts_streams`` asks for the usage of streamed answers too, which some servers do not know.

        ``make_chat`` makes LangChain's client of a model where it is another than that for OpenAI.
        """
        self.provider = provider
        self.base_url = base_url
        self.timeout_s = timeout_s
        self.idle_timeout_s = idle_timeout_s
        self.max_retries = max_retries
        self.permits = asyncio.Semaphore(concurrency)
        self._counts_streams = counts_streams
        self._make = make_chat
        self._api_key = api_key
        self._lock = asyncio.Lock()
        self._connections: httpx.AsyncClient | None = None
        self._chats: dict[str, Any] = {}

    async def chat(self, model: str) -> Any:
        """Give LangChain's client of a model. Its slow import happens in a thread."""
        async with self._lock:
            if model not in self._chats:
                if len(self._chats) >= _MAX_CHATS:
                    self._chats.clear()
                self._chats[model] = await asyncio.to_thread(self._make_chat, model)
            return self._chats[model]

    def _make_chat(self, model: str) -> Any:
        if self._make is not None:
            return self._make(model=model, base_url=self.base_url, api_key=self._api_key, timeout_s=self.timeout_s)
        from ragflow_lg.adapters.chat.openai_client import make_chat, open_connections

        if self._connections is None:
            self._connections = open_connections(self.timeout_s)
        return make_chat(
            model,
            self._connections,
            base_url=self.base_url,
            api_key=self._api_key,
            timeout_s=self.timeout_s,
            counts_streams=self._counts_streams,
        )

    @property
    def address(self) -> str:
        """Where it is, for people: without a login or a query."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

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
    """A `ragflow_lg.services.services.ChatModel` over LangChain's client, which is imported on the first call."""

    tells_its_end = True
    """Whether a streamed answer that gives no reason for its end has broken off."""

    def __init__(self, model: str, endpoint: Endpoint, about: Capabilities) -> None:
        self.model = model
        self.name = f"{model}@{endpoint.provider}"
        self.context_tokens = about.context_tokens
        self.has_vision = about.has_vision
        self.has_tools = about.has_tools
        self.has_schemas = about.has_schemas
        self._about = about
        self.endpoint = endpoint

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Give the whole answer, without a separate reasoning text."""
        chat = await self.chat(request)
        for attempt in range(self.endpoint.max_retries + 1):
            try:
                async with self.endpoint.permits:
                    with self.failures():
                        async with asyncio.timeout(self.endpoint.timeout_s):
                            answer: Any = await chat.ainvoke(_messages(request), **self.options(request))
                            return ChatAnswer(str(answer.text), _calls(answer), self._usage(answer))
            except ServiceError as error:
                await self._pause(error, attempt)
        raise AssertionError("the last attempt gives or raises")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the answer as it comes."""
        chat = await self.chat(request)
        for attempt in range(self.endpoint.max_retries + 1):
            has_begun = False
            try:
                async with self.endpoint.permits, aclosing(self._pieces(chat, request)) as pieces:
                    async for delta in pieces:
                        has_begun = True
                        yield delta
                return
            except ServiceError as error:
                if has_begun:
                    raise
                await self._pause(error, attempt)

    async def chat(self, request: ChatRequest) -> Any:
        """Give LangChain's client, with what a request needs bound to it."""
        return await self.endpoint.chat(self.model)

    async def _pause(self, error: ServiceError, attempt: int) -> None:
        """Wait before the next attempt, as long as the endpoint says; raise where there is none."""
        is_last = attempt >= self.endpoint.max_retries
        if is_last or not error.is_retryable or error.retry_after_s > _LONGEST_PAUSE_S:
            raise error
        backoff_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt) * random.uniform(0.5, 1.0)
        await asyncio.sleep(max(error.retry_after_s, backoff_s))

    async def _pieces(self, chat: Any, request: ChatRequest) -> AsyncGenerator[ChatDelta]:
        chunks = chat.astream(_messages(request), **self.options(request))
        calls = _CallPieces()
        usage: Usage | None = None
        is_ended = not self.tells_its_end
        loop = asyncio.get_running_loop()
        left_s = limit_s = self.endpoint.timeout_s
        try:
            while True:
                began = loop.time()
                with self.failures():
                    async with asyncio.timeout(min(left_s, limit_s)):
                        chunk = await anext(chunks, None)
                if chunk is None:
                    break
                calls.add(_call_pieces(chunk))
                if len(calls) > _MAX_CALLS:
                    raise self.failure(f"asked for more than {_MAX_CALLS} calls at once")
                usage = self._usage(chunk) if chunk.usage_metadata else usage
                is_ended = is_ended or bool(chunk.response_metadata.get("finish_reason"))
                left_s -= loop.time() - began
                limit_s = self.endpoint.idle_timeout_s
                if reasoning := chunk.additional_kwargs.get("reasoning_content"):
                    yield ChatDelta(reasoning, is_thinking=True)
                if text := str(chunk.text):
                    yield ChatDelta(text)
        finally:
            await chunks.aclose()
        if not is_ended:
            # A proxy that gives up ends the body in order; only the missing reason tells that there was more to come.
            raise self.failure("broke off: its answer ends without a finish_reason", is_retryable=True)
        yield ChatDelta("", calls=calls.whole(), usage=usage or Usage(calls=1))

    def _usage(self, message: Any) -> Usage:
        counted: Mapping[str, int] = message.usage_metadata or {}
        read, written = (_count(counted.get(name)) for name in ("input_tokens", "output_tokens"))
        cost = (read * self._about.input_price + written * self._about.output_price) / 1_000_000
        return Usage(read, written, 1, cost)

    def options(self, request: ChatRequest) -> dict[str, Any]:
        """Give what goes along with the messages."""
        options: dict[str, Any] = dict(request.sampling)
        if "max_tokens" in options and urlsplit(self.endpoint.base_url).hostname == _OPENAI_HOST:
            # OpenAI's newer models refuse the old name, other servers do not know the new one.
            options["max_completion_tokens"] = options.pop("max_tokens")
        if request.tools:
            options["tools"] = [function_of(tool) for tool in request.tools]
        if request.stop:
            options["stop"] = list(request.stop)
        body: dict[str, Any] = {}
        if request.schema is not None:
            # Not as an option: the client would then read the answer itself, and refuse tools beside a schema.
            named = {"name": "answer", "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        if request.template_kwargs:
            body["chat_template_kwargs"] = dict(request.template_kwargs)
        if request.thinking:
            body["thinking"] = {"type": request.thinking}
        return {**options, "extra_body": body} if body else options

    @contextmanager
    def failures(self) -> Generator[None]:
        """Turn whatever goes wrong on the way into a `ServiceError`, without the key."""
        import httpx
        import openai

        try:
            yield
        except TimeoutError:
            raise self.failure("did not answer in time", is_retryable=True) from None
        except ServiceError:
            raise
        except openai.APIStatusError as error:
            status = error.status_code
            is_retryable = status in (408, 409, 429) or status >= 500
            text = f"answered {status}: {_detail(error)}"
            raise self.failure(text, is_retryable=is_retryable, retry_after_s=_retry_after_s(error)) from None
        except (openai.APIConnectionError, httpx.HTTPError) as error:
            cause = error.__cause__ or error
            where = self.endpoint.address
            raise self.failure(f"cannot be reached at {where}, or broke off: {cause}", is_retryable=True) from None
        except openai.OpenAIError as error:
            raise self.failure(f"failed: {_detail(error)}", is_retryable=True) from None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise self.failure(f"gave an answer that is not in OpenAI's form: {_odd(error)}") from None

    def failure(self, what: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> ServiceError:
        """Give the error that tells what went wrong, without the key."""
        text = " ".join(f"The model {self.model!r} of {self.endpoint.provider} {what}".split())
        text = self.endpoint.redacted(text)
        text = text if len(text) <= _MAX_ERROR_CHARS else text[: _MAX_ERROR_CHARS - 1] + "…"
        return ServiceError(text, is_retryable=is_retryable, retry_after_s=retry_after_s)


def _retry_after_s(error: Any) -> float:
    """Give how long the endpoint asks to wait, 0 where it does not say. A date is taken for no number."""
    text: str = error.response.headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


class _CallPiece(Struct):
    index: Any
    id: str = ""
    name: str = ""
    arguments: str = ""


class _CallPieces:
    """Puts the pieces of streamed tool calls together. Servers that send whole calls may leave their index out."""

    def __init__(self) -> None:
        self._calls: list[_CallPiece] = []

    def add(self, pieces: Sequence[Mapping[str, Any]]) -> None:
        for piece in pieces:
            index = piece.get("index")
            call = next((c for c in reversed(self._calls) if index is not None and c.index == index), None)
            if call is None or (piece.get("id") and call.id and piece["id"] != call.id):
                call = _CallPiece(index)
                self._calls.append(call)
            call.id = call.id or piece.get("id") or ""
            call.name += piece.get("name") or ""
            call.arguments += piece.get("args") or ""

    def __len__(self) -> int:
        return len(self._calls)

    def whole(self) -> tuple[ToolCall, ...]:
        return _numbered([ToolCall(call.id, call.name, call.arguments) for call in self._calls])


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= _MAX_TOKENS else 0


def _call_pieces(chunk: Any) -> Sequence[Mapping[str, Any]]:
    """Give the pieces of calls in a chunk; a client that does not stream gives a whole message for one."""
    pieces: Sequence[Mapping[str, Any]] | None = getattr(chunk, "tool_call_chunks", None)
    if pieces is not None:
        return pieces
    return [{"id": call.id, "name": call.name, "args": call.arguments} for call in _calls(chunk)]


def _calls(answer: Any) -> tuple[ToolCall, ...]:
    """Give the calls of a whole answer, those whose arguments are no JSON too."""
    written: list[dict[str, str]] | None = answer.additional_kwargs.get(CALLS)
    if written is not None:
        return _numbered([ToolCall(c["id"] or "", c["name"], c["args"]) for c in written])
    parsed = [ToolCall(c["id"] or "", c["name"], json.dumps(c["args"], ensure_ascii=False)) for c in answer.tool_calls]
    others = [ToolCall(c["id"] or "", c["name"] or "", c["args"] or "") for c in answer.invalid_tool_calls]
    return _numbered([*parsed, *others])


def _numbered(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Give calls that can be answered: each with an id, a name, which the model is told is wrong, and arguments."""
    return tuple(
        ToolCall(call.id or f"call_{number}", call.name.strip() or _UNNAMED, call.arguments.strip() or "{}")
        for number, call in enumerate(calls, 1)
        if call.name.strip() or call.arguments.strip()
    )


def _odd(error: Exception) -> str:
    """Say in a word what is odd about an answer; what libraries say of it helps nobody."""
    if isinstance(error, json.JSONDecodeError):
        return "it is no JSON"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if type(error) is ValueError:
        return str(error)
    logger.info("An answer of a model could not be read.", exc_info=error)
    return "it could not be read"


def function_of(tool: ToolSchema) -> dict[str, Any]:
    """Describe a tool in OpenAI's form, which LangChain knows too."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Write a message in OpenAI's form."""
    calls: Sequence[Mapping[str, str]] = message.get("tool_calls") or ()
    if not calls:
        return dict(message)
    written = [
        {"id": c["id"], "type": "function", "function": {"name": _name(c["name"]), "arguments": c["arguments"] or "{}"}}
        for c in calls
    ]
    return {"role": "assistant", "content": message.get("content") or None, "tool_calls": written}


def _name(name: str) -> str:
    """Give the name of a call as endpoints accept it: models make up others."""
    return _FOREIGN.sub("_", name)[:_MAX_NAME_CHARS] or _UNNAMED


def _messages(request: ChatRequest) -> list[dict[str, Any]]:
    messages = [_message(message) for message in request.messages]
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
