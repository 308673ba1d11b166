"""API keys: made, looked up, listed, revoked. Stored is a digest, from which no key can be told."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, select

from ragflow_lg.adapters.system_services import RandomIds
from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.plain_rows import finder
from ragflow_lg.server.database.tables import ID_CHARS, TENANT_CHARS, TITLE_CHARS, KeyRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database

__all__ = ["KeyRepository"]

KEY_BYTES = 32
PREFIX_CHARS = 16
MAX_KEY_CHARS = 256
_HOLDING = select(KeyRow.__table__).where(
    KeyRow.digest == bindparam("digest"), KeyRow.kind == bindparam("kind"), KeyRow.revoke_ms == 0
)
_BEGINNINGS = {"api": "ragflow-", "beta": "beta-"}


class KeyRepository:
    """The keys of all tenants: a key is what tells whose a request is."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, tenant: str, now_ms: int, *, name: str = "", kind: str = "api", compat: str = "") -> str:
        """Make a key and give it; it cannot be had again.

        Raises:
            RequestError: if the tenant or the name is empty or too long.
        """
        if not 0 < len(tenant.strip()) <= TENANT_CHARS:
            raise RequestError(f"The name of a tenant has 1 to {TENANT_CHARS} characters.", 101)
        if len(name) > TITLE_CHARS:
            raise RequestError(f"The name of a key has at most {TITLE_CHARS} characters.", 101)
        key = _BEGINNINGS[kind] + secrets.token_urlsafe(KEY_BYTES)
        row = KeyRow(
            id=RandomIds().run_id(),
            tenant=tenant.strip(),
            digest=_digest(key),
            prefix=key[:PREFIX_CHARS],
            name=name,
            kind=kind,
            compat=compat,
            create_ms=now_ms,
            revoke_ms=0,
        )
        async with self._database.writing() as writing:
            writing.add(row)
        return key

    async def find(self, key: str, kind: str = "api") -> KeyRow | None:
        """Give what is known of a key that holds. Whoever does not know it cannot find it by the time this takes."""
        if len(key) > MAX_KEY_CHARS:
            return None
        found = await self._database.read(finder(_HOLDING, {"digest": _digest(key), "kind": kind}))
        return KeyRow(**found) if found is not None else None

    async def list(self) -> list[KeyRow]:
        """Give all keys, revoked ones too, oldest first."""
        async with self._database.reading() as reading:
            return list(await reading.scalars(select(KeyRow).order_by(KeyRow.create_ms, KeyRow.id)))

    async def count(self) -> int:
        """Count the keys, revoked ones too."""
        async with self._database.reading() as reading:
            return await reading.scalar(select(func.count()).select_from(KeyRow)) or 0

    async def revoke(self, which: str, now_ms: int) -> KeyRow:
        """Let a key not hold any more, named by itself, its id, its beginning, or its name.

        Raises:
            RequestError: if it names no key, or several.
        """
        async with self._database.writing() as writing:
            holding = list(await writing.scalars(select(KeyRow).where(KeyRow.revoke_ms == 0)))
            row = _meant(holding, which)
            row.revoke_ms = now_ms
            return row


def _meant(rows: Iterable[KeyRow], which: str) -> KeyRow:
    """Give the one key that is meant; a beginning goes before a name."""
    shown = repr(which[:PREFIX_CHARS])  # it may be a whole key
    keys = list(rows)
    begun = [row for row in keys if _is_key(row, which)]
    named = [row for row in keys if which and row.name == which]
    found = begun or named
    if len(found) == 1:
        return found[0]
    if len(begun) > 1 or (not named and which and any(kind.startswith(which) for kind in _BEGINNINGS.values())):
        raise RequestError(f"Several keys begin with {shown}; write more of it. `ragflow-lg keys list` shows them.")
    if named:
        raise RequestError(
            f"Several keys have the name {shown}; write the beginning of one. `ragflow-lg keys list` shows them."
        )
    raise RequestError(
        f"Here no key that holds begins with {shown}, or has it as its name; `ragflow-lg keys list` shows them."
    )


def _is_key(row: KeyRow, which: str) -> bool:
    if len(which) > PREFIX_CHARS:
        return row.digest == _digest(which) or (len(which) == ID_CHARS and row.id == which)
    return len(which) > len(_BEGINNINGS[row.kind]) and row.prefix.startswith(which)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
