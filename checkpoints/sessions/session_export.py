"""Exports a session: everything that its store has of it, as lines that another store can import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.key_ring import require_plain
from ragflow_lg.checkpoints.records.run_records import hex_session
from ragflow_lg.checkpoints.sessions.session_lines import (
    CheckpointLine,
    EndLine,
    Line,
    PartLine,
    RecordLine,
    SessionLine,
    TraceLine,
    WritesLine,
)
from ragflow_lg.checkpoints.sessions.session_pruning import is_part
from ragflow_lg.checkpoints.steps.checkpoint_texts import stored_texts
from ragflow_lg.checkpoints.steps.saver_operations import checkpoint_key, key_config, writes_of_tasks
from ragflow_lg.services.sessions import hold_lease

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.store import Store

PARTS_AT_ONCE = 16
"""How many long texts are in memory at once."""


async def export_session(store: Store, session: str) -> AsyncIterator[Line]:
    """Yield the lines of a session, from its start to its end. It cannot change meanwhile.

    Raises:
        SessionBusyError: if a runner holds the session.
        CheckpointError: if the store fails or its data is damaged.
    """
    async with hold_lease(store.leases, session):
        yield SessionLine(hex_session(session))
        count = 0
        for lines in (_parts(store, session), _checkpoints(store, session), _records(store, session)):
            async for line in lines:
                count += 1
                yield line
        yield EndLine(count)


async def _parts(store: Store, session: str) -> AsyncIterator[Line]:
    thread, values = str(thread_of_session(session)), store.saver.values
    names = [name for name in await store.saver.parts.names(thread) if is_part(name)]
    for start in range(0, len(names), PARTS_AT_ONCE):
        with values.errors.translate_read():
            found = await values.blobs.find(thread, names[start : start + PARTS_AT_ONCE])
            for text in found.values():
                require_plain(text)
            lines = [PartLine(name, text.decode()) for name, text in found.items()]
        for line in lines:
            yield line


async def _checkpoints(store: Store, session: str) -> AsyncIterator[Line]:
    saver = store.saver
    keys = [key async for key in saver.list_keys(str(thread_of_session(session)))]
    for key in reversed(keys):
        with saver.values.errors.translate_read():
            packed = await saver.inner.aget_tuple(key_config(key))
        if packed is None:
            raise DamagedSessionError(f"The checkpoint {key.checkpoint} cannot be read from the session store.")
        for line in _lines_of(packed):
            yield line


def _lines_of(packed: CheckpointTuple) -> list[Line]:
    stored_texts(packed)  # not encrypted with a key that only this store's settings have
    parent = checkpoint_key(packed.parent_config).checkpoint if packed.parent_config else ""
    namespace, metadata = checkpoint_key(packed.config).namespace, dict[str, Any](packed.metadata or {})
    lines: list[Line] = [CheckpointLine(namespace, parent, {**packed.checkpoint}, metadata)]
    return lines + [WritesLine(task, writes) for task, writes in writes_of_tasks(packed).items()]


async def _records(store: Store, session: str) -> AsyncIterator[Line]:
    records = [record async for record in store.runs.of_session(session)]
    for record in reversed(records):
        if (trace := await store.traces.get(record.run_id)) is not None:
            yield TraceLine(record, "trace", trace)
        if (trace := await store.node_logs.get(record.run_id)) is not None:
            yield TraceLine(record, "nodes", trace)
    for record in reversed(records):
        yield RecordLine(record)
