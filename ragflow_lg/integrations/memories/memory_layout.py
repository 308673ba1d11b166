"""How memories lie in LangGraph's store: their namespaces, and the values of their items."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from langgraph.store.base import Item
from msgspec import Struct

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.lenient_values import as_text
from ragflow_lg.services.memories import MAX_TEXT_CHARS, MEMORY_TYPES, Exchange, Remembered

ROOT = "memories"
"""The first label of all namespaces of memories."""

DEFINITIONS = "memory-definitions"
"""The first label of the namespaces of memories that tenants have created, one for each tenant."""

ACTIVE = "is_active"
"""The field that tells whether searches find an item."""

FIELD = "content"
"""The field of an item that is embedded."""

VECTOR = "vector"
"""The field with the vector of an item and the name of the model that made it."""

MAX_USER_CHARS = 1_000
"""Maximum length of the name of a user."""

_MAX_LABEL_CHARS = 200
_ESCAPED = re.compile(r"[%.\0\ud800-\udfff]")


class PendingExchange(Struct, frozen=True):
    """A stored exchange from which nothing has been extracted yet."""

    exchange: Exchange
    since: float
    """When it was stored or last tried, in epoch seconds."""
    attempts: int
    value: Mapping[str, Any]
    """What is stored."""


def memory_namespace(memory: str, tenant: str, user: str) -> tuple[str, str, str, str]:
    """Return the namespace of what a memory contains about a user.

    LangGraph refuses labels that are empty or contain a dot or NUL.

    >>> memory_namespace("preferences", "default", "anna@example.com")
    ('memories', 'preferences', 'default', 'anna@example%2Ecom')
    """
    return ROOT, _label(memory), _label(tenant), _label(user)


def users_prefix(memory: str, tenant: str) -> tuple[str, str, str]:
    """Return the beginning of the namespaces of all users."""
    return memory_namespace(memory, tenant, "")[:3]


def definitions_namespace(tenant: str) -> tuple[str, str]:
    """Return the namespace of the memories that a tenant has created."""
    return DEFINITIONS, _label(tenant)


def message_number(namespace: tuple[str, ...], key: str) -> int:
    """Return the number of an entry, by which RAGFlow's API names it. JavaScript represents it exactly."""
    return int(hashlib.sha256("\0".join((*namespace, key)).encode()).hexdigest()[:13], 16)


def _label(text: str) -> str:
    """Return a label that no other text has."""
    label = _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)
    if len(label) > _MAX_LABEL_CHARS:
        return f"%sha256-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return label or "%"


def check_user(user: str) -> None:
    """Check the name of a user, which each entry contains.

    Raises:
        ServiceError: if it is too long or no valid text.
    """
    if len(user) > MAX_USER_CHARS:
        raise ServiceError(
            f"The id of the user whose memory it is has {len(user):,} characters; {MAX_USER_CHARS:,} are possible. "
            "See user_id of the component and of the request."
        )
    if not user.isascii() and user != user.encode("utf-8", "replace").decode():
        raise ServiceError("The id of the user whose memory it is has unpaired surrogates. Use another user_id.")


def done_value(raw: Mapping[str, Any], *, is_kept: bool) -> dict[str, Any]:
    """Return what is kept of an exchange after its last extraction.

    Without its text, it is no entry any more and only says that the exchange has been seen.
    """
    left_out = (
        ("question", "answer", "claim") if is_kept else ("question", "answer", "claim", "type", "valid_at", FIELD)
    )
    return {name: value for name, value in raw.items() if name not in left_out}


def exchange_value(exchange: Exchange, time: str, now: float) -> dict[str, Any]:
    """Return the value of an exchange that waits for its extraction. ``time`` is for readers, ``now`` in seconds."""
    question, answer = exchange.question[:MAX_TEXT_CHARS], exchange.answer[:MAX_TEXT_CHARS]
    return {
        "type": "raw",
        FIELD: f"User: {question}\nAssistant: {answer}",
        "user": exchange.user,
        "agent": exchange.agent,
        "session": exchange.session,
        "valid_at": time,
        "created_at": now,
        "question": question,
        "answer": answer,
        "extraction": "pending",
        "attempts": 0,
    }


def created_at(item: Item) -> float:
    """Return when an item was stored, in epoch seconds; LangGraph's store in SQLite keeps the last change only."""
    time = item.value.get("created_at")
    return time if isinstance(time, float) else item.created_at.timestamp()


def pending_exchange(item: Item) -> PendingExchange | None:
    """Return the exchange of an item, or None if nothing is to be extracted from it."""
    value = item.value
    if value.get("type") != "raw" or value.get("extraction") != "pending":
        return None
    attempts = value.get("attempts")
    question, answer = as_text(value.get("question")), as_text(value.get("answer"))
    user, agent, session = (as_text(value.get(name)) for name in ("user", "agent", "session"))
    exchange = Exchange(item.key, user, question, answer, agent, session)
    tried = attempts if isinstance(attempts, int) else 0
    since = value.get("tried_at")
    return PendingExchange(exchange, since if isinstance(since, float) else created_at(item), tried, value)


def read_remembered(memory: str, item: Item) -> Remembered | None:
    """Return what an item contains, or None if another program has stored something else there."""
    value = item.value
    type_, content = value.get("type"), value.get(FIELD)
    if type_ not in MEMORY_TYPES or not isinstance(content, str):
        return None
    return Remembered(
        item.key,
        memory,
        as_text(value.get("user")),
        type_,
        content,
        agent=as_text(value.get("agent")),
        valid_at=as_text(value.get("valid_at")),
        invalid_at=as_text(value.get("invalid_at")),
        source=as_text(value.get("source")),
        session=as_text(value.get("session")),
        is_active=value.get(ACTIVE) is not False,
    )
