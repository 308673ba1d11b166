"""What readers think of answers, and links to sessions for others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "feedback_and_links"
down_revision = "pins_of_sessions"

_TABLE = "feedback"


def upgrade() -> None:
    """Make the table, and the column with its index."""
    large = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    lines = {"tenant": 64, "run_id": 32, "agent_id": 32, "session_id": 32, "rating": 8, "author": 255}
    op.create_table(
        _TABLE,
        *(sa.Column(name, sa.String(length), nullable=False) for name, length in lines.items()),
        sa.Column("note", large, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("create_ms", "update_ms")),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_index("ix_feedback_tenant_agent_id_update_ms", _TABLE, ["tenant", "agent_id", "update_ms"])
    op.create_index("ix_feedback_tenant_session_id", _TABLE, ["tenant", "session_id"])
    op.add_column("sessions", sa.Column("share_digest", sa.String(64)))
    op.create_index("ix_sessions_share_digest", "sessions", ["share_digest"])
