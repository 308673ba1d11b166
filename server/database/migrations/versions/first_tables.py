"""The tables of the first version, written out: the models change, this must not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "first_tables"
down_revision = None

_NAMES = {"ix": "ix_%(table_name)s_%(column_0_N_name)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s"}
_LARGE = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_TIMES = "create_ms update_ms"


def upgrade() -> None:
    """Make the tables."""
    tables = sa.MetaData(naming_convention=_NAMES)
    _add_agents(tables)
    _add_sessions(tables)
    _add_access(tables)
    _add_webhooks(tables)
    tables.create_all(op.get_bind(), checkfirst=False)


def _table(
    tables: sa.MetaData,
    name: str,
    lines: dict[str, int],
    *,
    large: str = "",
    big: str = "",
    key: str = "id",
    indexed: Sequence[str] = (),
    unique: Sequence[str] = (),
    others: Sequence[sa.Column[Any]] = (),
) -> None:
    """Describe a table with short texts of a length, large texts and big numbers; the names are separated by spaces."""
    columns = [
        *(sa.Column(each, sa.String(length), nullable=False) for each, length in ({"tenant": 64} | lines).items()),
        *(sa.Column(each, _LARGE, nullable=False) for each in large.split()),
        *(sa.Column(each, sa.BigInteger(), nullable=False) for each in big.split()),
    ]
    constraints = [sa.PrimaryKeyConstraint(*key.split()), *(sa.UniqueConstraint(*each.split()) for each in unique)]
    sa.Table(name, tables, *columns, *others, *constraints, *(sa.Index(None, *each.split()) for each in indexed))


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), autoincrement=False, nullable=False)


def _add_agents(tables: sa.MetaData) -> None:
    texts = {"canvas_type": 64, "canvas_category": 32, "permission": 16, "tags": 512, "pause_answer": 16}
    _table(
        tables,
        "agents",
        {"id": 32, "title": 255, "title_key": 255, "version_id": 32, **texts},
        large="description avatar",
        big=_TIMES,
        unique=["tenant canvas_category title_key"],
        others=[sa.Column("pause_timeout_s", sa.Integer())],
    )
    _table(
        tables,
        "versions",
        {"id": 32, "agent_id": 32},
        large="title description dsl",
        big=_TIMES,
        indexed=["tenant agent_id create_ms"],
        others=[sa.Column("is_released", sa.Boolean(), nullable=False)],
    )
    runs = {"version": 32, "run_id": 32, "last_run_id": 32}
    _table(
        tables,
        "schedules",
        {"id": 32, "agent_id": 32, "cron": 128, "time_zone": 64, "name": 255, **runs},
        large="request error",
        big="due_ms create_ms",
        indexed=["tenant agent_id create_ms", "due_ms"],
    )


def _add_sessions(tables: sa.MetaData) -> None:
    users = {"user_id": 255, "exp_user_id": 255, "source": 16, "conversation": 64, "visitor": 32}
    _table(
        tables,
        "sessions",
        {"id": 32, "agent_id": 32, "version_id": 32, **users},
        large="name errors",
        big=f"tokens stored_bytes {_TIMES}",
        indexed=["tenant agent_id update_ms", "tenant conversation"],
        others=[_count("rounds"), sa.Column("duration_s", sa.Float(), nullable=False)],
    )
    _table(
        tables,
        "messages",
        {"session_id": 32, "role": 16, "run_id": 32},
        large="content reference",
        big="create_ms",
        key="session_id number",
        others=[_count("number")],
    )
    ids = {"id": 32, "agent_id": 32, "version_id": 32, "session_id": 32}
    _table(
        tables,
        "runs",
        {**ids, "status": 16, "page_key": 32, "request_hash": 64},
        large="error",
        big="prompt_tokens completion_tokens start_ms end_ms lease_token",
        indexed=["tenant session_id start_ms", "tenant agent_id start_ms"],
        unique=["tenant request_key"],
        others=[sa.Column("asked", _LARGE), sa.Column("request_key", sa.String(64)), _count("restarts")],
    )
    _table(
        tables,
        "pause_timeouts",
        {"session_id": 32, "agent_id": 32, "run_id": 32},
        big="expire_ms due_ms",
        key="session_id",
        indexed=["due_ms"],
    )


def _add_access(tables: sa.MetaData) -> None:
    _table(
        tables,
        "api_keys",
        {"id": 32, "digest": 64, "prefix": 32, "name": 255, "kind": 8, "compat": 16, "agents": 1024},
        big="create_ms revoke_ms expire_ms",
        unique=["digest"],
    )
    _table(
        tables,
        "files",
        {"id": 32, "agent_id": 32, "name": 255, "mime_type": 255, "page_key": 32, "visitor": 32},
        big="size_bytes create_ms expire_ms",
        indexed=["tenant agent_id", "expire_ms"],
    )
    _table(
        tables,
        "usage_days",
        {"page_key": 32},
        big="turns tokens micro_cost",
        key="tenant page_key day",
        others=[_count("day")],
    )


def _add_webhooks(tables: sa.MetaData) -> None:
    _table(tables, "webhook_buckets", {"agent_id": 32}, big="micro_tokens update_ms", key="agent_id")
    _table(
        tables,
        "webhook_deliveries",
        {"agent_id": 32, "digest": 64},
        big="expire_ms",
        key="agent_id digest",
        indexed=["tenant agent_id expire_ms"],
    )
    _table(tables, "webhook_tests", {"id": 32, "agent_id": 32}, big="start_us", indexed=["tenant agent_id start_us"])
    _table(
        tables,
        "webhook_events",
        {"test_id": 32},
        large="event",
        big="at_us",
        key="test_id number",
        others=[_count("number")],
    )
