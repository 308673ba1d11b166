"""Chat models on OpenAI-compatible endpoints, using LangChain's client."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from msgspec.structs import replace

from ragflow_lg.adapters.chat.answer_ends import end_reason, read_end
from ragflow_lg.adapters.chat.chat_settings import ModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.model_abilities import (
    IMAGE_REQUEST,
    NOTHING_KNOWN,
    Abilities,
    ask_for_abilities,
    find_refused,
    find_window,
)
from ragflow_lg.adapters.chat.model_rules import adapt_request, find_unsent
from ragflow_lg.adapters.chat.openai_messages import (
    MAX_CALLS,
    CallPieces,
    call_pieces,
    read_calls,
    tool_definition,
    write_messages,
)
from ragflow_lg.adapters.model_families.client_failures import ClientFailure, describe_failure
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.thinking import CLOSING, OPENING
from ragflow_lg.services.chat import AnswerEnd, ChatAnswer, ChatDelta, ChatRequest, Usage

if TYPE_CHECKING:
    import httpx

    from ragflow_lg.adapters.model_families.model_family import ModelFamily

MakeChat: TypeAlias = Callable[..., Any]
"""A factory of LangChain chat models, called with ``model``, ``base_url``, ``api_key`` and ``timeout_s``."""

logger = logging.getLogger(__name__)

_MAX_ERROR_CHARS = 400
_MIN_KEY_CHARS = 8
"""Shorter keys are placeholders. They are not redacted, because replacing them would garble the text."""
_MAX_CHATS = 64
_MAX_TOKENS = 10**9
"""Token counts above this value or below 0 are ignored."""
_OPENAI_HOST = "api.openai.com"
DEFAULT_CONTEXT_TOKENS = 128_000
"""Context size of models without settings. RAGFlow stores its models' sizes and assumes 8192 for others."""
_OTHER_CAUSES = frozenset({401, 402, 403, 408, 409, 429})
"""Statuses of answers that say nothing about what a model can do."""
_MAX_REFUSAL_CHARS = 200
_TOLD_S = 600.0
"""How long it is believed what a server tells: another model may be loaded, or the same with another window."""
_SILENT_S = 60.0
"""When a server is asked again that told nothing, as one that is still loading its model."""
_SCHEMA_REFUSALS = frozenset({400, 404, 415, 422, 501})
_WRONG_FORMAT = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
"""A request is not retried if the endpoint asks for a longer pause."""
_WORK_S = 0.005
"""How long the pieces of an answer that have arrived together are read before others have a turn."""


class Endpoint:
    """An OpenAI-compatible endpoint with its timeouts and connections.

    ``timeout_s`` limits a whole answer, or the first chunk of a streamed one; the time the reader spends between chunks
    does not count. ``idle_timeout_s`` limits the time between two chunks. A call that fails temporarily is retried up
    to ``max_retries`` times, unless a chunk has been delivered. At most ``concurrency`` calls run at a time.
    """

    def __init__(
        self,
        provider: str,
        settings: ProviderSettings,
        make_chat: MakeChat | None = None,
        family: ModelFamily | None = None,
    ) -> None:
        """``make_chat`` or ``family`` creates a model's LangChain client if it is not the client for OpenAI."""
        self.provider = provider
        self.base_url = settings.base_url
        self.settings = settings
        self.permits = asyncio.Semaphore(settings.concurrency)
        self.family = family
        self._make = make_chat
        self._api_key = settings.api_key
        self._lock = asyncio.Lock()
        self._connections: httpx.AsyncClient | None = None
        self._chats: dict[str, Any] = {}
        self._refused: dict[str, Abilities] = {}
        self._told: dict[str, tuple[Abilities, float]] = {}
        """What servers have told, and when they are asked again."""

    async def chat(self, model: str) -> Any:
        """Return the LangChain client for a model. Its slow import runs in a thread."""
        async with self._lock:
            if model not in self._chats:
                if len(self._chats) >= _MAX_CHATS:
                    self._chats.clear()
                self._chats[model] = await asyncio.to_thread(self._make_chat, model)
            return self._chats[model]

    def abilities(self, model: str) -> Abilities:
        """Return what is known of a model from its server and its refusals, without asking."""
        return self._refused.get(model, NOTHING_KNOWN).over(self._told.get(model, (NOTHING_KNOWN, 0.0))[0])

    def remember(self, model: str, found: Abilities) -> None:
        """Keep what a refusal says about a model, as long as the process runs."""
        if model not in self._refused and len(self._refused) >= _MAX_CHATS:
            self._refused.clear()
        self._refused[model] = found.over(self._refused.get(model, NOTHING_KNOWN))

    async def learn(self, model: str) -> Abilities:
        """Return what is known of a model. Its server is asked from time to time, if it has an API that tells it."""
        is_ollama = self.family is not None and self.family.is_ollama
        async with self._lock:
            before, asked_again = self._told.get(model, (NOTHING_KNOWN, 0.0))
            if time.monotonic() >= asked_again and (self.is_openai_compatible or is_ollama):
                connections = await asyncio.to_thread(self._open_connections)
                told = await ask_for_abilities(connections, self.base_url, self._api_key, model, is_ollama=is_ollama)
                if len(self._told) >= _MAX_CHATS:
                    self._told.clear()
                told, pause_s = (before, _SILENT_S) if told == NOTHING_KNOWN else (told, _TOLD_S)
                self._told[model] = told, time.monotonic() + pause_s
            return self.abilities(model)

    def _open_connections(self) -> httpx.AsyncClient:
        from ragflow_lg.adapters.chat.openai_client import open_connections

        self._connections = self._connections or open_connections(self.settings.timeout_s)
        return self._connections

    def _make_chat(self, model: str) -> Any:
        if self.family is not None:
            return self.family.make_chat(model)
        if self._make is not None:
            return self._make(
                model=model, base_url=self.base_url, api_key=self._api_key, timeout_s=self.settings.timeout_s
            )
        from ragflow_lg.adapters.chat.openai_client import make_chat

        return make_chat(
            model,
            self._open_connections(),
            base_url=self.base_url,
            api_key=self._api_key,
            timeout_s=self.settings.timeout_s,
            counts_streams=self.settings.counts_streams,
        )

    @property
    def is_openai_compatible(self) -> bool:
        """Whether its client is the one for OpenAI."""
        return self.family is None and self._make is None

    @property
    def address(self) -> str:
        """The URL without credentials or a query string, for messages."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def redact(self, text: str) -> str:
        """Replace the API key in a string."""
        return text.replace(self._api_key, "***") if len(self._api_key) >= _MIN_KEY_CHARS else text

    async def aclose(self) -> None:
        """Close the connections."""
        connections, self._connections = self._connections, None
        self._chats.clear()
        if connections is not None:
            await connections.aclose()
        if self.family is not None:
            await self.family.aclose()


class OpenAIChat:
    """A `ragflow_lg.services.chat.ChatModel` that uses LangChain's client, which is imported by the first call."""

    requires_finish_reason = True
    """Whether a streamed answer without a finish reason counts as interrupted."""

    def __init__(self, model: str, endpoint: Endpoint, settings: ModelSettings) -> None:
        self.model = model
        self.name = f"{model}@{endpoint.provider}"
        self._settings = settings
        self._said = Abilities(settings.context_tokens, settings.has_vision, settings.has_tools, settings.has_schemas)
        self.endpoint = endpoint

    @property
    def abilities(self) -> Abilities:
        """What the settings say, else what is known from the server and its refusals."""
        return self._said.over(self.endpoint.abilities(self.model))

    @property
    def context_tokens(self) -> int:
        """The window; the default if nobody has told it."""
        return self.abilities.context_tokens or DEFAULT_CONTEXT_TOKENS

    @property
    def has_vision(self) -> bool:
        """Whether the model gets images, which is tried if it is not known."""
        return self.abilities.has_vision is not False

    @property
    def has_tools(self) -> bool:
        """Whether the model gets tools, which is tried if it is not known."""
        return self.abilities.has_tools is not False

    @property
    def has_schemas(self) -> bool:
        """Whether the settings say that a schema need not be in the prompt."""
        return self._settings.has_schemas is True

    @property
    def tries_schemas(self) -> bool:
        """Whether a schema is sent and its refusal remembered; requests have it in their prompt as well."""
        return self._settings.has_schemas is None and self.endpoint.is_openai_compatible

    async def learn(self, *names: str) -> Abilities:
        """Return what is known beyond the settings. The server is asked, unless they say all that is needed."""
        if any(getattr(self._said, name) is None for name in names or ("context_tokens", "has_vision", "has_tools")):
            await self.endpoint.learn(self.model)
        return self.endpoint.abilities(self.model).beyond(self._said)

    def setting(self, line: str) -> str:
        """Return a setting for this model."""
        return f'[models."{self.name}"] {line}'

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the whole answer, without the reasoning text.

        A schema that the server refuses is sent once and not again as long as the process runs.
        """
        if request.schema is None or not self.tries_schemas:
            return await self._complete(request)
        plain = replace(request, schema=None)
        # With a schema, some servers let a model write the schema's JSON only, and no calls.
        if request.tools or self.abilities.has_schemas is False:
            return await self._complete(plain)
        try:
            return await self._complete(request)
        except ServiceError as error:
            if error.status not in _SCHEMA_REFUSALS:
                raise
            refusal = error
        answer = await self._complete(plain)
        self.endpoint.remember(self.model, Abilities(has_schemas=False))
        logger.info("%s refuses schemas; they stand in its prompts only: %s", self.name, refusal)
        return answer

    async def _complete(self, request: ChatRequest) -> ChatAnswer:
        chat = await self.chat(request)
        for attempt in range(self.endpoint.settings.max_retries + 1):
            try:
                async with self.endpoint.permits:
                    with self.failures():
                        async with asyncio.timeout(self.endpoint.settings.timeout_s):
                            answer: Any = await chat.ainvoke(self.messages(request), **self.options(request))
                            return self._answer(answer)
            except ServiceError as error:
                await self._pause(error, attempt, request)
        raise AssertionError("the last attempt returns or raises")

    def _answer(self, answer: Any) -> ChatAnswer:
        """Return a whole answer; its reasoning only if there is nothing else, so that this can be said."""
        text, calls = str(answer.text), read_calls(answer)
        if not text.strip() and not calls and (reasoning := self.reasoning(answer)).strip():
            text = f"{OPENING}{reasoning}{CLOSING}"
        return ChatAnswer(text, calls, self._usage(answer), self._end(answer))

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Yield the answer as it arrives."""
        if self.tries_schemas:
            request = replace(request, schema=None)
        chat = await self.chat(request)
        for attempt in range(self.endpoint.settings.max_retries + 1):
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
                await self._pause(error, attempt, request)

    async def chat(self, request: ChatRequest) -> Any:
        """Return the LangChain client with everything that the request needs bound to it."""
        return await self.endpoint.chat(self.model)

    async def _pause(self, error: ServiceError, attempt: int, request: ChatRequest) -> None:
        """Wait before the next attempt, at least as long as the endpoint asks. Raise ``error`` after the last one."""
        if error.refused == "has_vision" and request.images and self._said.has_vision is None:
            await self._check_vision(request)
        is_last = attempt >= self.endpoint.settings.max_retries
        if is_last or not error.is_retryable or error.retry_after_s > _LONGEST_PAUSE_S:
            raise error
        backoff_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt) * random.uniform(0.5, 1.0)
        await asyncio.sleep(max(error.retry_after_s, backoff_s))

    async def _check_vision(self, request: ChatRequest) -> None:
        """Remember that the model takes no images if it refuses a plain one as well, in a request that asks little."""
        if request == IMAGE_REQUEST:
            self.endpoint.remember(self.model, Abilities(has_vision=False))
            return
        with suppress(ServiceError):
            await self._complete(IMAGE_REQUEST)

    async def _pieces(self, chat: Any, request: ChatRequest) -> AsyncGenerator[ChatDelta]:
        chunks = chat.astream(self.messages(request), **self.options(request))
        calls = CallPieces()
        usage: Usage | None = None
        end: AnswerEnd = ""
        has_ended = not self.requires_finish_reason
        loop = asyncio.get_running_loop()
        remaining_s = limit_s = self.endpoint.settings.timeout_s
        rested = loop.time()
        try:
            while True:
                start = loop.time()
                if start - rested > _WORK_S:
                    await asyncio.sleep(0)
                    rested = start = loop.time()
                with self.failures():
                    async with asyncio.timeout(min(remaining_s, limit_s)):
                        chunk = await anext(chunks, None)
                if chunk is None:
                    break
                if not calls.add(call_pieces(chunk)):
                    raise self.failure(f"sent more than {MAX_CALLS} tool calls in one answer")
                usage = self.merge_usage(usage, self._usage(chunk)) if chunk.usage_metadata else usage
                end = end or self._end(chunk)
                has_ended = has_ended or self.is_end(chunk) or end == "content_filter"
                remaining_s -= loop.time() - start
                limit_s = self.endpoint.settings.idle_timeout_s
                if reasoning := self.reasoning(chunk):
                    yield ChatDelta(reasoning, is_thinking=True)
                if text := str(chunk.text):
                    yield ChatDelta(text)
        finally:
            await chunks.aclose()
        if not has_ended:
            # A proxy that gives up closes the body properly; only the missing finish reason shows the interruption.
            raise self.failure("stopped early: its answer ends without a finish_reason", is_retryable=True)
        yield ChatDelta("", calls=calls.merge(), usage=usage or Usage(calls=1), end=end)

    def _end(self, message: Any) -> AnswerEnd:
        """Return why an answer ended."""
        end = read_end(message.response_metadata)
        if end == "interrupted":
            reason = end_reason(message.response_metadata)
            raise self.failure(f"stopped early: its answer ends with {reason!r}", is_retryable=True)
        return end

    def merge_usage(self, before: Usage | None, added: Usage) -> Usage:
        """Return the usage of an answer after another chunk with usage: OpenAI's chunks contain that of all before."""
        return added

    def is_end(self, chunk: Any) -> bool:
        """Return whether a chunk says why the answer ends."""
        return bool(chunk.response_metadata.get("finish_reason"))

    def reasoning(self, chunk: Any) -> str:
        """Return the reasoning text of a chunk."""
        return chunk.additional_kwargs.get("reasoning_content") or ""

    def _usage(self, message: Any) -> Usage:
        counts: Mapping[str, int] = message.usage_metadata or {}
        read, written = (_count(counts.get(name)) for name in ("input_tokens", "output_tokens"))
        prices = self._settings
        cost = (read * prices.input_price + written * prices.output_price) / 1_000_000
        return Usage(read, written, 1, cost)

    def messages(self, request: ChatRequest) -> list[dict[str, Any]]:
        """Return the messages of a request."""
        return write_messages(request)

    def adapt(self, request: ChatRequest) -> tuple[ChatRequest, dict[str, Any]]:
        """Return the request with the parameters that its model takes, and what its body says about thinking."""
        sends_max_tokens = self._settings.sends_max_tokens
        return adapt_request(request, self.endpoint.provider, self.model, sends_max_tokens=sends_max_tokens)

    def find_unsent(self, sampling: Mapping[str, Any]) -> list[str]:
        """Return the sampling parameters that are not sent to this model as the canvas says."""
        sends_max_tokens = self._settings.sends_max_tokens
        return find_unsent(sampling, self.endpoint.provider, self.model, sends_max_tokens=sends_max_tokens)

    def options(self, request: ChatRequest) -> dict[str, Any]:
        """Return the options of a request other than its messages."""
        request, body = self.adapt(request)
        options: dict[str, Any] = dict(request.sampling)
        if "max_tokens" in options and urlsplit(self.endpoint.base_url).hostname == _OPENAI_HOST:
            # OpenAI's newer models reject the old name; other servers do not support the new one.
            options["max_completion_tokens"] = options.pop("max_tokens")
        if request.tools:
            options["tools"] = [tool_definition(tool) for tool in request.tools]
        if request.stop:
            options["stop"] = list(request.stop)
        if request.schema is not None:
            # In the body, not as an option: LangChain would parse the answer itself and reject tools with a schema.
            schema = {"name": "answer", "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.template_kwargs:
            body["chat_template_kwargs"] = dict(request.template_kwargs)
        return {**options, "extra_body": body} if body else options

    @contextmanager
    def failures(self) -> Generator[None]:
        """Convert any exception from the client to a `ServiceError` without the API key."""
        try:
            yield
        except (ServiceError, SettingsError):
            raise
        except TimeoutError:
            raise self.failure("did not answer in time", is_retryable=True) from None
        except Exception as error:  # noqa: BLE001 - any client may raise anything
            found = describe_failure(error, self.endpoint.address)
            refused = self._refused(found)
            failure = self.failure(
                self._explain_refusal(refused, found.text) if refused else self.explain(error, found),
                is_retryable=found.is_retryable and not refused,
                retry_after_s=found.retry_after_s,
            )
            failure.status, failure.refused = found.status, refused
            raise failure from None

    def explain(self, error: Exception, found: ClientFailure) -> str:
        """Return what a failure means for this kind of model."""
        if not found.is_retryable and isinstance(error, _WRONG_FORMAT):
            return f"returned an answer that is not in OpenAI's format: {_describe(error)}"
        return found.text

    def _refused(self, found: ClientFailure) -> str:
        """Return which part of the request the server does not take, by its name in `REFUSALS`; else ``""``."""
        is_refusal = 400 <= found.status <= 501 and found.status not in _OTHER_CAUSES
        return find_refused(found.text) if is_refusal else ""

    def _explain_refusal(self, refused: str, text: str) -> str:
        """Return a refusal with the setting that avoids it, and remember what it says about the model."""
        refusal = f"{text.rstrip('.')}." if len(text) <= _MAX_REFUSAL_CHARS else f"{text[:_MAX_REFUSAL_CHARS]}…"
        if refused == "parameter":
            return f"{refusal} Switch this parameter off in the canvas."
        if refused == "counts_streams":
            return f"{refusal} Set [providers.{self.endpoint.provider}] counts_streams = false in the settings."
        if refused == "sends_max_tokens":
            return f"{refusal} Remove max_tokens from the canvas, or sends_max_tokens of the model from the settings."
        value: int | str = "false"
        if refused == "context_tokens":
            window = find_window(text)
            self.endpoint.remember(self.model, Abilities(window))
            value = window or "N, the number that the model accepts"
        elif refused != "has_vision":  # it may be a fault of the image, which is found out
            self.endpoint.remember(self.model, NOTHING_KNOWN._replace(**{refused: False}))
        return f"{refusal} Set {self.setting(f'{refused} = {value}')} in the settings."

    def failure(self, what: str, *, is_retryable: bool = False, retry_after_s: float = 0.0) -> ServiceError:
        """Return an error that says what went wrong, without the API key."""
        text = " ".join(f"The model {self.model!r} of {self.endpoint.provider} {what}".split())
        text = self.endpoint.redact(text)
        text = text if len(text) <= _MAX_ERROR_CHARS else text[: _MAX_ERROR_CHARS - 1] + "…"
        return ServiceError(text, is_retryable=is_retryable, retry_after_s=retry_after_s)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= _MAX_TOKENS else 0


def _describe(error: Exception) -> str:
    """Describe an unreadable answer in a few words; the libraries' own messages are too technical."""
    if isinstance(error, json.JSONDecodeError):
        return "it is not JSON"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if type(error) is ValueError:
        return str(error)
    logger.info("A model's answer could not be parsed.", exc_info=error)
    return "it could not be parsed"
