"""The Redis keys of sessions, and the script that writes to them, so that a session's keys live and expire together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any, cast

import msgspec
from redis.asyncio import Redis

from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints.records.run_records import hex_session
from ragflow_lg.checkpoints.redis.redis_client import Command, collect
from ragflow_lg.checkpoints.steps.thread_tables import (
    BLOB_MISSING,
    CHECKPOINT_MISSING,
    LEASE_MISSING,
    LEASE_TAKEN,
    NO_LEASE,
    PART_MISSING,
    Precondition,
)

LIST, APPEND, NEWEST = "LIST", "APPEND_FIELD", "NEWEST"
"""Commands of the script.

`LIST` adds a session to the index, with its id and the start of its run. `APPEND` appends to a field of a hash.
`NEWEST` stores the greatest id that a namespace still has, or nothing: a thread that has blobs must have that hash."""


def _read_script(name: str) -> str:
    texts = [Path(__file__).with_name(f"session_{part}.lua").read_text("utf-8") for part in ("keys", name)]
    return Template("\n".join(texts)).substitute(
        LIST=LIST,
        APPEND=APPEND,
        NEWEST=NEWEST,
        NO_LEASE=NO_LEASE,
        LEASE_MISSING=LEASE_MISSING,
        LEASE_TAKEN=LEASE_TAKEN,
        CHECKPOINT_MISSING=CHECKPOINT_MISSING,
        BLOB_MISSING=BLOB_MISSING,
        PART_MISSING=PART_MISSING,
    )


_WRITE, _READ = _read_script("write"), _read_script("read")


def _pack(commands: Sequence[Command]) -> bytes:
    """Return commands as one argument of the script: the client takes long for each argument."""
    return msgspec.msgpack.encode([list(map(_as_text, command)) for command in commands])


def _as_text(part: Any) -> Any:
    """Return a part of a command as text. The script's decoder does not know MessagePack's type for bytes."""
    if isinstance(part, bytes):
        return msgspec.Raw(b"\xdb" + len(part).to_bytes(4, "big") + part)
    return part if isinstance(part, str) else str(part)


class RedisSessions:
    """The keys of all sessions of a deployment."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int, *, is_cluster: bool = False) -> None:
        self.client = cast("Any", client)
        self.prefix = prefix
        self._flag_prefixes = (prefix,) if is_cluster else (prefix, "")
        self._ttl_ms = ttl_s * 1000
        self.index = f"{prefix}agent:sessions"
        """The key of the sorted set of all sessions."""

    def lease_key(self, session: str) -> str:
        """Return the key of a session's lease."""
        return f"{self.prefix}agent:active-session:{session}"

    def cancel_keys(self, session: str) -> list[str]:
        """Return RAGFlow's keys for the session's name and for both of its UUID forms.

        Those without the prefix are RAGFlow's own. In a cluster, they are in other slots.
        """
        names = dict.fromkeys((hex_session(session), session, thread_of_session(session)))
        return list(dict.fromkeys(f"{prefix}{name}-cancel" for prefix in self._flag_prefixes for name in names))

    def runs_key(self, session: str) -> str:
        """Return the key of the sorted set of a session's runs."""
        return f"{self.prefix}agent:runs-of-session:{session}"

    def record_key(self, run_id: str) -> str:
        """Return the key of a run's record."""
        return f"{self.prefix}agent:run:{run_id}"

    def checkpoints_key(self, thread: str) -> str:
        """Return the key of the hash of a thread's checkpoints and pending writes."""
        return f"{self.prefix}checkpoints:{thread}"

    def blobs_key(self, thread: str) -> str:
        """Return the key of the hash of a thread's blobs."""
        return f"{self.prefix}checkpoint_blobs:{thread}"

    async def write(self, thread: str, commands: Sequence[Command]) -> None:
        """Execute commands in the open transaction, or by themselves. The second part of each must be its key."""
        if not collect(commands):
            await self._eval(_WRITE, thread, "", "", _pack(commands))

    async def write_checked(self, precondition: Precondition, commands: Sequence[Command]) -> None:
        """Execute commands if the precondition holds.

        Raises:
            ResponseError: if it does not.
        """
        key = precondition.checkpoint
        checkpoint = f"c\0{key.namespace}\0{key.checkpoint}" if key is not None else ""
        claims = (precondition.token, checkpoint, _pack(commands), *precondition.blobs)
        await self._eval(_WRITE, precondition.thread, *claims)

    async def read(self, thread: str, namespace: str, checkpoint: str) -> Sequence[bytes]:
        """Renew a thread. Return the id of a checkpoint, or of the newest one for ``""``, its text and its writes.

        Return nothing if there is no such checkpoint.

        Raises:
            ResponseError: if the server has lost a part of the thread.
        """
        return await self._eval(_READ, thread, namespace, checkpoint)

    async def _eval(self, script: str, thread: str, *arguments: Any) -> Any:
        session = session_of_thread(thread)
        hashes = (self.checkpoints_key(thread), self.blobs_key(thread))
        keys = (*hashes, self.runs_key(session), self.index, self.lease_key(session))
        return await self.client.eval(script, len(keys), *keys, self._ttl_ms, self.record_key(""), *arguments)
