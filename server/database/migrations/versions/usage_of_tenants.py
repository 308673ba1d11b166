"""What tenants and keys of pages have used each day, and the scope and the end of keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007_usage_of_tenants"
down_revision = "0006_conversations_of_sessions"

_COLUMNS = (
    ("api_keys", "agents", sa.String(1024), ""),
    ("api_keys", "expire_ms", sa.BigInteger(), "0"),
    ("files", "page_key", sa.String(32), ""),
    ("runs", "page_key", sa.String(32), ""),
    ("sessions", "stored_bytes", sa.BigInteger(), "0"),
)


def upgrade() -> None:
    """Make the table and the columns."""
    op.create_table(
        "usage_days",
        sa.Column("tenant", sa.String(64), primary_key=True),
        sa.Column("page_key", sa.String(32), primary_key=True),
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("turns", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("micro_cost", sa.BigInteger(), nullable=False),
    )
    for table, name, kind, default in _COLUMNS:
        op.add_column(table, sa.Column(name, kind, nullable=False, server_default=default))


def downgrade() -> None:
    """Drop them."""
    for table, name, _, _ in reversed(_COLUMNS):
        op.drop_column(table, name)
    op.drop_table("usage_days")
