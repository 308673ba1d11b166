"""Which stored sessions a command is about: those with a name, those of a user, or all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.server.runs.stored_sessions import has_session
from ragflow_lg.services.sessions import NO_ENTRIES, with_recent_entries

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store


class Selected(Struct, frozen=True):
    """A session, and its name for users."""

    session: str
    name: str


async def select_sessions(store: Store, names: Sequence[str], user: str = "") -> tuple[list[Selected], list[str]]:
    """Return the sessions with these names or, without names, all; and the names that no session has.

    If a ``user`` is given, only sessions whose last turn had this ``sys.user_id`` are returned.

    Raises:
        CheckpointError: if the store fails.
    """
    found: list[Selected] = []
    if names:
        missing = [name for name in names if not await has_session(store, name)]
        found = [Selected(name, name) for name in dict.fromkeys(names) if name not in missing]
    else:
        missing = []
        found = [Selected(record.session, record.name or record.session) async for record in store.runs.sessions()]
    if user:
        found = [selected for selected in found if await _user_of(store, selected.session) == user]
    return found, missing


async def _user_of(store: Store, session: str) -> str:
    place: Any = {"configurable": {"thread_id": str(thread_of_session(session)), "checkpoint_ns": ""}}
    stored = await store.saver.aget_tuple(with_recent_entries(place, NO_ENTRIES))
    values: dict[str, Any] = stored.checkpoint["channel_values"] if stored is not None else {}
    globals_: dict[str, Any] = values.get("globals") or {}
    return str(globals_.get("sys.user_id") or "")
