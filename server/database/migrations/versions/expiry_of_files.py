"""When files that runs have created are deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008_expiry_of_files"
down_revision = "0007_usage_of_tenants"


def upgrade() -> None:
    """Make the column and its index."""
    op.add_column("files", sa.Column("expire_ms", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_index("ix_files_expire_ms", "files", ["expire_ms"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_files_expire_ms", "files")
    op.drop_column("files", "expire_ms")
