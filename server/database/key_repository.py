"""Creates, looks up, lists and revokes API keys. Only a digest is stored, from which a key cannot be derived."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Select, func, or_, select

from ragflow_lg.adapters.system_services import RandomIds
from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.tables import ID_CHARS, KEY_AGENTS_CHARS, TENANT_CHARS, TITLE_CHARS, KeyRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database

KEY_BYTES = 32
PREFIX_CHARS = 16
MAX_KEY_CHARS = 256
_KEY_PREFIXES = {"api": "ragflow-", "beta": "beta-"}


class KeyRepository:
    """All tenants' keys. A request's key identifies its tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        tenant: str,
        now_ms: int,
        *,
        name: str = "",
        kind: str = "api",
        compat: str = "",
        agents: Sequence[str] = (),
        expire_ms: int = 0,
    ) -> str:
        """Create a key and return it. Only its digest is stored.

        ``agents`` limits a beta key to these agents; ``expire_ms`` is when the key becomes invalid, or 0.

        Raises:
            RequestError: If the tenant or the name is empty or too long, or the agents do not suit the key.
        """
        if agents and kind != "beta":
            raise RequestError("Only beta keys can be limited to agents.", 101)
        if len(",".join(agents)) > KEY_AGENTS_CHARS:
            raise RequestError("A key cannot be limited to so many agents; create several keys.", 101)
        if not 0 < len(tenant.strip()) <= TENANT_CHARS:
            raise RequestError(f"A tenant name must have 1 to {TENANT_CHARS} characters.", 101)
        if len(name) > TITLE_CHARS:
            raise RequestError(f"A key name may have at most {TITLE_CHARS} characters.", 101)
        key = _KEY_PREFIXES[kind] + secrets.token_urlsafe(KEY_BYTES)
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
            agents=",".join(agents),
            expire_ms=expire_ms,
        )
        await self._database.add(row)
        return key

    async def find(self, key: str, now_ms: int, kind: str = "api") -> KeyRow | None:
        """Return the row for a valid key, or None. Comparing digests reveals nothing about keys through timing."""
        if len(key) > MAX_KEY_CHARS:
            return None
        return await self._database.first(_valid(now_ms).where(KeyRow.digest == _digest(key), KeyRow.kind == kind))

    async def get(self, key_id: str, now_ms: int) -> KeyRow | None:
        """Return the row with an id if its key is valid, or None."""
        return await self._database.first(_valid(now_ms).where(KeyRow.id == key_id))

    async def list(self) -> list[KeyRow]:
        """Return all keys, including revoked ones, oldest first."""
        return await self._database.all(select(KeyRow).order_by(KeyRow.create_ms, KeyRow.id))

    async def tenants(self) -> set[str]:
        """Return the tenants with valid keys."""
        return set(await self._database.all(select(KeyRow.tenant).where(KeyRow.revoke_ms == 0).distinct()))

    async def count(self) -> int:
        """Count the keys, including revoked ones."""
        return await self._database.first(select(func.count()).select_from(KeyRow)) or 0

    async def revoke(self, which: str, now_ms: int) -> KeyRow:
        """Revoke the key identified by ``which``: the key itself, its id, its beginning, or its name.

        Raises:
            RequestError: If no key matches or several do.
        """
        async with self._database.writing() as db:
            rows = list(await db.scalars(select(KeyRow).where(KeyRow.revoke_ms == 0)))
            row = _match(rows, which)
            row.revoke_ms = now_ms
            return row


def _valid(now_ms: int) -> Select[KeyRow]:
    return select(KeyRow).where(KeyRow.revoke_ms == 0, or_(KeyRow.expire_ms == 0, KeyRow.expire_ms > now_ms))


def _match(rows: Iterable[KeyRow], which: str) -> KeyRow:
    """Return the only matching key. A matching beginning takes precedence over a name."""
    label = repr(which[:PREFIX_CHARS])  # it may be a complete key
    keys = list(rows)
    by_prefix = [row for row in keys if _is_key(row, which)]
    by_name = [row for row in keys if which and row.name == which]
    matches = by_prefix or by_name
    if len(matches) == 1:
        return matches[0]
    if len(by_prefix) > 1 or (not by_name and which and any(kind.startswith(which) for kind in _KEY_PREFIXES.values())):
        raise RequestError(f"Several keys begin with {label}; add more characters. `ragflow-lg keys list` shows them.")
    if by_name:
        raise RequestError(
            f"Several keys are named {label}; enter the beginning of one. `ragflow-lg keys list` shows them."
        )
    raise RequestError(f"No valid key begins with {label} or has this name; `ragflow-lg keys list` shows all keys.")


def _is_key(row: KeyRow, which: str) -> bool:
    if len(which) > PREFIX_CHARS:
        return row.digest == _digest(which) or (len(which) == ID_CHARS and row.id == which)
    return len(which) > len(_KEY_PREFIXES[row.kind]) and row.prefix.startswith(which)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
