"""The kinds of exchanges with services, how a recording stores their answers, and what wrapped services need of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec.structs import asdict

from ragflow_lg.adapters.recording.cassette import (
    CallLine,
    ChatLine,
    DatasetEntry,
    DatasetsLine,
    HttpLine,
    MailLine,
    MemoryLine,
    MetadataLine,
    PieceRecord,
    QueryLine,
    RememberedRecord,
    ResponseRecord,
    SearchLine,
    SearchRecord,
    ServerAnswerRecord,
    StatementRecord,
    bounded_number,
)
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.dsl.redaction import REDACTED, Redactor, is_secret_name
from ragflow_lg.services.chat import (
    NO_USAGE,
    ChatAnswer,
    ChatDelta,
    ChatModel,
    ChatModels,
    ChatRequest,
    ToolCall,
    Usage,
)
from ragflow_lg.services.databases import StatementResult
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.knowledge import Dataset, DocumentCount, Metadata, SearchResult
from ragflow_lg.services.mail import Delivery
from ragflow_lg.services.memories import MemoryResult, Remembered
from ragflow_lg.services.services import Caller, Clock, Ids
from ragflow_lg.services.tool_policies import ServerAnswer, ToolServer

A = TypeVar("A")
L = TypeVar("L", ChatLine, HttpLine, CallLine, DatasetsLine, SearchLine, MetadataLine, MemoryLine, QueryLine, MailLine)

DatasetRow: TypeAlias = Sequence[Dataset | None]
"""The dataset for each requested name or id, or None for unknown ones."""


@dataclass(frozen=True)
class Exchange(Generic[A, L]):
    """A kind of exchange, with answers of type ``A`` in lines of type ``L``."""

    line: type[L]
    describe: Callable[[Mapping[str, Any]], str]
    """Returns a description of a request for error messages."""
    encode: Callable[[A, Redactor], dict[str, Any]]
    """Returns the line's fields for an answer, without secrets."""
    decode: Callable[[L], A | None]
    """Returns the answer in a line, or None if it has none."""
    failures: tuple[type[Exception], ...] = (ServiceError, SettingsError)
    """Errors that are recorded and replayed. After other errors the request counts as stopped."""
    replays_settings_errors: bool = True
    """Whether a `SettingsError` is replayed as one, instead of as a `ServiceError`."""


# Chat


def describe_model(llm_id: str) -> str:
    """Return a description of a model for error messages."""
    return f"model {llm_id!r}" if llm_id else "the default model"


def encode_pieces(deltas: Sequence[ChatDelta], redactor: Redactor) -> list[str | PieceRecord]:
    """Return the records of pieces. Secrets are removed even if they extend over several pieces."""
    texts = [delta.text for delta in deltas]
    for is_thinking in (False, True):
        chosen = [i for i, delta in enumerate(deltas) if delta.is_thinking is is_thinking]
        for index, text in zip(chosen, redactor.pieces([texts[i] for i in chosen]), strict=True):
            texts[index] = text
    return [_encode_piece(delta, text, redactor) for delta, text in zip(deltas, texts, strict=True)]


def _encode_piece(delta: ChatDelta, text: str, redactor: Redactor) -> str | PieceRecord:
    if not (delta.is_thinking or delta.calls or delta.usage or delta.end):
        return text
    calls = [(call.id, call.name, redactor.text(call.arguments)) for call in delta.calls]
    return PieceRecord(
        text=text, is_thinking=delta.is_thinking, calls=calls, usage=_encode_usage(delta.usage), end=delta.end
    )


def _encode_usage(usage: Usage | None) -> tuple[int, int, int, float] | None:
    if usage is None:
        return None
    prompt, completion, calls, cost = map(bounded_number, usage)
    return int(prompt), int(completion), int(calls), cost


def decode_piece(piece: str | PieceRecord) -> ChatDelta:
    """Return the piece in a record."""
    if isinstance(piece, str):
        return ChatDelta(piece)
    usage = Usage(*piece.usage) if piece.usage is not None else None
    return ChatDelta(piece.text, piece.is_thinking, tuple(ToolCall(*call) for call in piece.calls), usage, piece.end)


def _encode_chat(answer: ChatAnswer, redactor: Redactor) -> dict[str, Any]:
    delta = ChatDelta(answer.text, calls=tuple(map(ToolCall._make, answer.calls)), usage=answer.usage, end=answer.end)
    return {"pieces": encode_pieces([delta], redactor)}


def _decode_chat(line: ChatLine) -> ChatAnswer:
    deltas = [decode_piece(piece) for piece in line.pieces]
    text = "".join(delta.text for delta in deltas if not delta.is_thinking)
    calls = next((delta.calls for delta in reversed(deltas) if delta.calls), ())
    usage = NO_USAGE
    for delta in deltas:
        usage = usage.plus(delta.usage or NO_USAGE)
    return ChatAnswer(text, calls, usage, deltas[-1].end if deltas else "")


CHAT = Exchange(
    ChatLine, lambda request: describe_model(request.get("model", "")), _encode_chat, _decode_chat, (ServiceError,)
)


# HTTP


def _encode_response(response: HttpResponse, redactor: Redactor) -> dict[str, Any]:
    redactor.learn_from(response.text)
    headers = {n: REDACTED if is_secret_name(n) else redactor.text(v) for n, v in response.headers.items()}
    text, url = redactor.text(response.text), redactor.text(response.url)
    return {"response": ResponseRecord(status=response.status, headers=headers, text=text, url=url)}


def _decode_response(line: HttpLine) -> HttpResponse | None:
    record = line.response
    return HttpResponse(record.status, record.headers, record.text, record.url) if record is not None else None


HTTP = Exchange(
    HttpLine,
    lambda request: f"{request['method']} {request.get('url', '')}",
    _encode_response,
    _decode_response,
    (ServiceError,),
)


# MCP server tools


def _encode_server_answer(answer: ServerAnswer, redactor: Redactor) -> dict[str, Any]:
    redactor.learn_from([*answer.texts, answer.structured])
    record = ServerAnswerRecord(
        texts=[redactor.text(text) for text in answer.texts],
        others=[redactor.text(kind) for kind in answer.others],
        structured=redactor.value(answer.structured),
        is_error=answer.is_error,
    )
    return {"answer": record}


def _decode_server_answer(line: CallLine) -> ServerAnswer | None:
    record = line.answer
    if record is None:
        return None
    return ServerAnswer(tuple(record.texts), tuple(record.others), record.structured, record.is_error)


CALL = Exchange(
    CallLine,
    lambda request: f"tool {request.get('tool', '')!r} of the MCP server {request.get('server', '')!r}",
    _encode_server_answer,
    _decode_server_answer,
    (ServiceError, SettingsError, TimeoutError),
    replays_settings_errors=False,
)


# Datasets


def _encode_dataset(dataset: Dataset | None, redactor: Redactor) -> DatasetEntry | None:
    if dataset is None:
        return None
    return DatasetEntry(**{name: redactor.text(text) for name, text in dataset._asdict().items()})


def _decode_datasets(line: DatasetsLine) -> DatasetRow | None:
    if line.datasets is None:
        return None
    return [Dataset(**entry.model_dump()) if entry is not None else None for entry in line.datasets]


def _encode_search(result: SearchResult, redactor: Redactor) -> dict[str, Any]:
    chunks, documents = json.loads(json.dumps([result.chunks, result.documents], default=str))
    redactor.learn_from(chunks)
    redacted: Any = redactor.value(documents)
    record = SearchRecord(chunks=[redactor.value(chunk) for chunk in chunks], documents=redacted, total=result.total)
    return {"found": record}


def _decode_search(line: SearchLine) -> SearchResult | None:
    if line.found is None:
        return None
    documents = tuple(DocumentCount(*document) for document in line.found.documents)
    return SearchResult(tuple(line.found.chunks), documents, line.found.total)


def _encode_metadata(metadata: Metadata, redactor: Redactor) -> dict[str, Any]:
    """Return the metadata line. If a key's name suggests a secret, its values are removed."""
    encoded: dict[str, dict[str, list[str]]] = {}
    for key, values in metadata.items():
        entry = encoded.setdefault(redactor.text(key), {})
        for value, ids in values.items():
            text = REDACTED if is_secret_name(key) else redactor.text(value)
            entry.setdefault(text, []).extend(map(redactor.text, ids))
    return {"metadata": encoded}


DATASETS: Exchange[DatasetRow, DatasetsLine] = Exchange(
    DatasetsLine,
    lambda request: "dataset lookup",
    lambda datasets, redactor: {"datasets": [_encode_dataset(dataset, redactor) for dataset in datasets]},
    _decode_datasets,
)
SEARCH = Exchange(SearchLine, lambda request: "dataset search", _encode_search, _decode_search)
METADATA: Exchange[Metadata, MetadataLine] = Exchange(
    MetadataLine, lambda request: "dataset metadata", _encode_metadata, lambda line: line.metadata
)


# Memories, databases and mail servers


def _encode_memories(result: MemoryResult, redactor: Redactor) -> dict[str, Any]:
    records = [
        RememberedRecord.model_validate({**asdict(entry), "content": redactor.text(entry.content)})
        for entry in result.entries
    ]
    return {"is_known": result.is_known, "entries": records}


def _decode_memories(line: MemoryLine) -> MemoryResult | None:
    if line.entries is None:
        return None
    return MemoryResult(tuple(Remembered(**entry.model_dump()) for entry in line.entries), line.is_known)


def _encode_results(results: Sequence[StatementResult], redactor: Redactor) -> dict[str, Any]:
    records = [
        StatementRecord(
            sql=redactor.text(result.sql),
            columns=list(result.columns),
            rows=[dict(redactor.value(row)) for row in result.rows],  # pyright: ignore[reportArgumentType, reportCallIssue]
            error=redactor.text(result.error),
            changed=result.changed,
            is_refused=result.is_refused,
            has_more=result.has_more,
        )
        for result in results
    ]
    return {"results": records}


def _decode_results(line: QueryLine) -> Sequence[StatementResult] | None:
    if line.results is None:
        return None
    return [
        StatementResult(r.sql, tuple(r.columns), r.rows, r.error, r.changed, r.is_refused, r.has_more)
        for r in line.results
    ]


def _encode_delivery(delivery: Delivery, redactor: Redactor) -> dict[str, Any]:
    return {"refused": {address: redactor.text(reason) for address, reason in delivery.refused.items()}}


MEMORY: Exchange[MemoryResult, MemoryLine] = Exchange(
    MemoryLine, lambda request: "memory search", _encode_memories, _decode_memories
)
QUERY: Exchange[Sequence[StatementResult], QueryLine] = Exchange(
    QueryLine, lambda request: f"query of {request.get('database', '')}", _encode_results, _decode_results
)
MAIL: Exchange[Delivery, MailLine] = Exchange(
    MailLine,
    lambda request: f"e-mail to {', '.join(request.get('to', ()))}",
    _encode_delivery,
    lambda line: None if line.refused is None else Delivery(line.refused),
)


class Tape(Protocol):
    """A recorder, which calls the real services, or a player, which never does."""

    @property
    def redactor(self) -> Redactor:
        """Removes secrets from requests."""
        ...

    async def exchange(
        self, kind: Exchange[A, Any], caller: Caller, request: dict[str, Any], call_service: Callable[[], Awaitable[A]]
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
