"""The sessions of an agent on a RAGFlow server, in all generations of its API.

A session's canvas contains its state: the history, the variables, the outputs of the components that have run, and the
path. At a pause, the path begins with the forms that wait. RAGFlow 1.0 stores neither the path nor the outputs. Up to
0.25.0 the messages are called ``messages``, each with its sources; a single session of a newer server has the sources
beside its messages: one entry for each answer, and since 1.0 for each turn, also if it was interrupted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import accumulate
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from ragflow_lg.adapters.ragflow_api.api_client import (
    RagflowApi,
    as_map,
    as_rows,
    is_id,
    read_number,
    read_object,
    read_text,
)
from ragflow_lg.base.errors import RefusalError
from ragflow_lg.base.lenient_values import as_list

MAX_SESSIONS = 50_000
"""Maximum number of sessions of an agent."""

MAX_MESSAGES = 20_000
_ROLES = ("user", "assistant")
_TIMES = ("_created_time", "_elapsed_time")
_READ = ("role", "content", "id", "created_at", "reference", "prompt")
"""Keys of messages that are not kept as they are. A prompt is none of the conversation; RAGFlow hides it as well."""


class RemoteMessage(Struct, frozen=True, omit_defaults=True):
    """A message. ``chunks`` are the cited chunks by number, and ``documents`` their documents by name."""

    role: str
    content: str
    id: str = ""
    created_at: float = 0.0
    """Epoch seconds."""
    chunks: dict[str, dict[str, Any]] = {}
    documents: dict[str, dict[str, Any]] = {}
    other: dict[str, Any] = {}
    """What else the server says about it."""


class RemoteState(Struct, frozen=True, omit_defaults=True):
    """What a session's canvas says about the run."""

    history: list[list[Any]] = []
    """Pairs of role and text, or of role and outputs of the last component."""
    globals: dict[str, Any] = {}
    path: list[str] = []
    """The components of the last turn; at a pause, the forms and what waits beside them."""
    outputs: dict[str, dict[str, Any]] = {}
    """The outputs of the components that have run, in this turn or an earlier one."""


class RemoteSession(Struct, frozen=True, omit_defaults=True):
    """A conversation with an agent. Times are epoch milliseconds."""

    id: str
    agent_id: str
    messages: list[RemoteMessage]
    state: RemoteState = RemoteState()
    name: str = ""
    user_id: str = ""
    exp_user_id: str = ""
    source: str = ""
    version_title: str = ""
    errors: str = ""
    tokens: int = 0
    round: int = 0
    create_ms: int = 0
    update_ms: int = 0


async def list_sessions(api: RagflowApi, agent_id: str) -> AsyncIterator[tuple[str, int]]:
    """Yield the ids of an agent's sessions with the time of their last change in epoch milliseconds.

    Raises:
        ServiceError: if the server fails, or there are too many sessions.
    """
    path = f"/api/v1/agents/{quote(agent_id, safe='')}/sessions"
    # Oldest first: sessions that change during the listing move to the end instead of out of sight.
    query = {"dsl": "false", "orderby": "update_time", "desc": "false"}
    async for row in api.rows(path, query=query, limit=MAX_SESSIONS):
        if is_id(id_ := read_text(row, "id", max_chars=200)):
            yield id_, read_number(row, "update_time")


async def read_session(api: RagflowApi, agent_id: str, session_id: str) -> RemoteSession | None:
    """Return a session with its messages and state, or None if it has been deleted."""
    path = f"/api/v1/agents/{quote(agent_id, safe='')}/sessions"
    try:
        row = as_map(await api.get(f"{path}/{session_id}"))
    except RefusalError as error:
        if error.api_code == 404 and not error.is_unknown_route:
            return None
        if not error.is_unknown_route and error.api_code != 102:
            raise
        query = {"id": session_id, "page": "1", "page_size": "1"}  # servers up to 0.25.0
        rows = as_rows(await api.get(path, query))
        row = next((row for row in rows if row.get("id") == session_id), dict[str, Any]())
    return parse_session(row, agent_id) if row.get("id") == session_id else None


def parse_session(row: Mapping[str, Any], agent_id: str) -> RemoteSession:
    """Return the session that a server's row describes. Values of wrong types are left out."""
    listed = row.get("message") if isinstance(row.get("message"), list) else row.get("messages")
    messages = as_rows(listed)[:MAX_MESSAGES]
    sources = _pair_references([message.get("role") for message in messages], _read_references(row.get("reference")))
    parsed: list[RemoteMessage] = []
    for number, message in enumerate(messages):
        role = read_text(message, "role", max_chars=20)
        if role not in _ROLES:
            continue
        own = as_list(message.get("reference"))
        chunks, documents = read_sources({"chunks": own} if own else sources.get(number, {}))
        created = message.get("created_at")
        parsed.append(
            RemoteMessage(
                role,
                read_text(message, "content"),
                read_text(message, "id", max_chars=64),
                float(created) if isinstance(created, int | float) and 0 <= created < 2**40 else 0.0,
                chunks,
                documents,
                {name: value for name, value in message.items() if name not in _READ},
            )
        )
    return RemoteSession(
        read_text(row, "id", max_chars=64),
        agent_id,
        parsed,
        parse_state(read_object(row.get("dsl"))),
        read_text(row, "name", max_chars=250),
        read_text(row, "user_id", max_chars=255),
        read_text(row, "exp_user_id", max_chars=255),
        read_text(row, "source", max_chars=16),
        read_text(row, "version_title", max_chars=255),
        read_text(row, "errors", max_chars=10_000),
        read_number(row, "tokens"),
        read_number(row, "round"),
        read_number(row, "create_time"),
        read_number(row, "update_time"),
    )


def parse_state(dsl: Mapping[str, Any]) -> RemoteState:
    """Return the state that a session's canvas contains; parameters, which may contain keys, are left out."""
    outputs: dict[str, dict[str, Any]] = {}
    for id_, component in as_map(dsl.get("components")).items():
        inner = as_map(as_map(component).get("obj")) or as_map(component)
        declared = as_map(as_map(inner.get("params")).get("outputs"))
        values = {name: as_map(entry).get("value") for name, entry in declared.items()}
        kept = {name: value for name, value in values.items() if value is not None and name not in _TIMES}
        if kept or "_created_time" in values:
            outputs[id_] = kept
    history = [entry for entry in map(as_list, as_list(dsl.get("history"))) if len(entry) == 2 and entry[0] in _ROLES]
    path = [entry for entry in as_list(dsl.get("path")) if isinstance(entry, str)]
    return RemoteState(history[-MAX_MESSAGES:], as_map(dsl.get("globals")), path, outputs)


def _read_references(value: Any) -> Sequence[Mapping[str, Any]]:
    """Return the sources of the answers in order: a list, one object, or objects by number."""
    if isinstance(value, list):
        return [as_map(entry) for entry in as_list(value)]
    fields = as_map(value)
    if "chunks" in fields:
        return [fields]
    numbered = [(int(key), as_map(entry)) for key, entry in fields.items() if key.isascii() and key.isdecimal()]
    return [entry for _, entry in sorted(numbered, key=lambda pair: pair[0])]


def _pair_references(roles: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> Mapping[int, Mapping[str, Any]]:
    """Return the sources of the answers by the numbers of their messages: by order, or else by turn.

    If there are more than answers and not one for each turn, nothing says which belongs to which.
    """
    answers = [number for number, role in enumerate(roles) if number and role == "assistant"]
    if len(references) <= len(answers):
        return dict(zip(answers, references, strict=False))
    if len(references) != roles.count("user"):
        return {}
    turns: list[int] = [*accumulate(int(role == "user") for role in roles)]
    return {number: references[turns[number] - 1] for number in answers if turns[number]}


def read_sources(cited: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the cited chunks by number and their documents by name, from lists or objects."""
    chunks: dict[str, dict[str, Any]] = {}
    listed = cited.get("chunks")
    if isinstance(listed, list):
        for number, chunk in enumerate(as_rows(listed)):
            key = read_text(chunk, "citation_id", max_chars=20) or str(number)
            chunks[key] = {name: value for name, value in chunk.items() if name != "citation_id"}
    else:
        chunks = {key[:20]: as_map(chunk) for key, chunk in as_map(listed).items() if isinstance(chunk, dict)}
    documents = cited.get("doc_aggs")
    if isinstance(documents, list):
        named = {read_text(row, "doc_name", max_chars=255): row for row in as_rows(documents)}
    else:
        named = {key[:255]: as_map(row) for key, row in as_map(documents).items()}
    return chunks, named
