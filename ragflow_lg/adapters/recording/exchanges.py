"""The kinds of exchanges with services, how a recording stores their answers, and what wrapped services need of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import REDACTED, Redactor, is_secret_name
from ragflow_lg.services.chat import NO_USAGE, ChatAnswer, ChatDelta, ChatModel, ChatModels, ChatRequest
from ragflow_lg.services.databases import StatementResult
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.knowledge import Dataset, Metadata, SearchResult
from ragflow_lg.services.mail import Delivery
from ragflow_lg.services.memories import MemoryResult
from ragflow_lg.services.services import Caller, Clock, Ids
from ragflow_lg.services.tool_policies import ServerAnswer, ToolServer

A = TypeVar("A")

DatasetRow: TypeAlias = Sequence[Dataset | None]
"""The dataset for each requested name or id, or None for unknown ones."""


@dataclass(frozen=True)
class Exchange(Generic[A]):
    """A kind of exchange, with answers of type ``A``."""

    service: str
    type: Any
    """The type ``A``, as msgspec reads it."""
    describe: Callable[[Mapping[str, Any]], str]
    """Returns a description of a request for error messages."""
    failures: tuple[type[Exception], ...] = (ServiceError, SettingsError)
    """Errors that are recorded and replayed. After other errors the request counts as stopped."""
    replays_settings_errors: bool = True
    """Whether a `SettingsError` is replayed as one, instead of as a `ServiceError`."""
    clean: Callable[[A, Redactor], Any] | None = None
    """Returns an answer without secrets that names of fields do not show."""

    def encode(self, answer: A, redactor: Redactor) -> Any:
        """Return an answer as JSON without secrets."""
        if self.clean is not None:
            return _to_json(self.clean(answer, redactor))
        value = _to_json(answer)
        redactor.learn_from(value)
        return redactor.value(value)

    def decode(self, answer: Any) -> A:
        """Return the answer in a line.

        Raises:
            CassetteError: if it is damaged.
        """
        try:
            return cast("A", msgspec.convert(answer, self.type))
        except msgspec.ValidationError as error:
            raise CassetteError(f"The recording has a damaged answer ({self.service}): {error}.") from None


def _to_json(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=str)


def describe_model(llm_id: str) -> str:
    """Return a description of a model for error messages."""
    return f"model {llm_id!r}" if llm_id else "the default model"


def clean_pieces(deltas: Sequence[ChatDelta], redactor: Redactor) -> list[str | ChatDelta]:
    """Return pieces without secrets, even if these extend over several pieces. A mere text stands for its piece."""
    texts = [delta.text for delta in deltas]
    for is_thinking in (False, True):
        chosen = [i for i, delta in enumerate(deltas) if delta.is_thinking is is_thinking]
        for index, text in zip(chosen, redactor.pieces([texts[i] for i in chosen]), strict=True):
            texts[index] = text
    pieces: list[str | ChatDelta] = []
    for delta, text in zip(deltas, texts, strict=True):
        calls = tuple(call._replace(arguments=redactor.text(call.arguments)) for call in delta.calls)
        piece = delta._replace(text=text, calls=calls)
        pieces.append(text if piece == ChatDelta(text) else piece)
    return pieces


def read_pieces(pieces: Sequence[str | ChatDelta]) -> list[ChatDelta]:
    """Return the pieces of an answer."""
    return [ChatDelta(piece) if isinstance(piece, str) else piece for piece in pieces]


def pieces_of(answer: ChatAnswer) -> list[ChatDelta]:
    """Return a whole answer as one piece."""
    return [ChatDelta(answer.text, calls=answer.calls, usage=answer.usage, end=answer.end)]


def join_pieces(deltas: Sequence[ChatDelta]) -> ChatAnswer:
    """Return the whole answer that consists of pieces."""
    text = "".join(delta.text for delta in deltas if not delta.is_thinking)
    calls = next((delta.calls for delta in reversed(deltas) if delta.calls), ())
    usage = NO_USAGE
    for delta in deltas:
        usage = usage.plus(delta.usage or NO_USAGE)
    return ChatAnswer(text, calls, usage, deltas[-1].end if deltas else "")


def _clean_response(response: HttpResponse, redactor: Redactor) -> Any:
    redactor.learn_from(response.text)
    return redactor.value(_to_json(response._replace(content=b"")))


def _clean_metadata(metadata: Metadata, redactor: Redactor) -> Any:
    """Return metadata. If a key's name suggests a secret, its values are removed, which are keys themselves."""
    cleaned: dict[str, dict[str, list[str]]] = {}
    for key, values in metadata.items():
        entry = cleaned.setdefault(redactor.text(key), {})
        for value, ids in values.items():
            text = REDACTED if is_secret_name(key) else redactor.text(value)
            entry.setdefault(text, []).extend(map(redactor.text, ids))
    return cleaned


def _clean_memories(result: MemoryResult, redactor: Redactor) -> MemoryResult:
    entries = tuple(replace(entry, content=redactor.text(entry.content)) for entry in result.entries)
    return replace(result, entries=entries)


CHAT: Exchange[Sequence[str | ChatDelta]] = Exchange(
    "chat",
    list[str | ChatDelta],
    lambda request: describe_model(request.get("model", "")),
    (ServiceError,),
    clean=lambda pieces, redactor: clean_pieces(read_pieces(pieces), redactor),
)
HTTP: Exchange[HttpResponse] = Exchange(
    "http",
    HttpResponse,
    lambda request: f"{request['method']} {request.get('url', '')}",
    (ServiceError,),
    clean=_clean_response,
)
CALL: Exchange[ServerAnswer] = Exchange(
    "call",
    ServerAnswer,
    lambda request: f"tool {request.get('tool', '')!r} of the MCP server {request.get('server', '')!r}",
    (ServiceError, SettingsError, TimeoutError),
    replays_settings_errors=False,
)
DATASETS: Exchange[DatasetRow] = Exchange("datasets", list[Dataset | None], lambda request: "dataset lookup")
SEARCH: Exchange[SearchResult] = Exchange("search", SearchResult, lambda request: "dataset search")
METADATA: Exchange[Metadata] = Exchange(
    "metadata", dict[str, dict[str, list[str]]], lambda request: "dataset metadata", clean=_clean_metadata
)
MEMORY: Exchange[MemoryResult] = Exchange(
    "memory", MemoryResult, lambda request: "memory search", clean=_clean_memories
)
QUERY: Exchange[Sequence[StatementResult]] = Exchange(
    "query", list[StatementResult], lambda request: f"query of {request.get('database', '')}"
)
MAIL: Exchange[Delivery] = Exchange("mail", Delivery, lambda request: f"e-mail to {', '.join(request.get('to', ()))}")


class Tape(Protocol):
    """A recorder, which calls the real services, or a player, which never does."""

    @property
    def redactor(self) -> Redactor:
        """Removes secrets from requests."""
        ...

    async def exchange(
        self, kind: Exchange[A], caller: Caller, request: dict[str, Any], call_service: Callable[[], Awaitable[A]]
    ) -> A:
        """Return the answer to a request."""
        ...

    def stream(self, caller: Caller, llm_id: str, request: ChatRequest, model: ChatModel) -> AsyncIterator[ChatDelta]:
        """Yield the pieces of a model's answer."""
        ...

    def find_model(self, caller: Caller, llm_id: str, models: ChatModels) -> Any:
        """Return the model, or an object with its properties."""
        ...

    def find_server(self, id_: str, servers: Mapping[str, ToolServer]) -> ToolServer:
        """Return an MCP server. Raise KeyError if there is no such server."""
        ...

    def check_tool(self, caller: Caller, server_id: str, tool: str, server: ToolServer) -> None:
        """Raise SettingsError if the tool of a server may not be called."""
        ...

    def local_time(self, clock: Clock) -> str:
        """Return the local time, which prompts may contain."""
        ...

    def seed(self, ids: Ids) -> int:
        """Return the seed of a turn, which selects texts."""
        ...
