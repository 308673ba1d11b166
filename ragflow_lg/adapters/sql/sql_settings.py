"""Settings for databases. They are separate from them so that reading the settings does not import SQLAlchemy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ragflow_lg.services.databases import DatabaseAccount


class ConnectionSettings(Struct, frozen=True):
    """A connection in the settings."""

    account: DatabaseAccount
    options: Mapping[str, str] = field(default_factory=dict[str, Any])
    """Options of the driver, such as ``sslmode``."""
    allow_writes: bool = False

    def __repr__(self) -> str:
        """Hide the options, which may contain secrets."""
        return f"ConnectionSettings({self.account!r})"


class SqlSettings(Struct, frozen=True):
    """All settings for databases."""

    connections: Mapping[str, ConnectionSettings] = field(default_factory=dict[str, Any])
    allow_writes: bool = False
    """Whether statements may change the databases that canvases name themselves."""
    timeout_s: float = 30.0
    """Time limit for a statement."""
    max_rows: int = 10_000
    """Maximum number of rows for each statement, whatever the canvas asks for."""
    max_result_bytes: int = 4 * 1024 * 1024
    """About how large the result of one statement may be."""
    max_connections: int = 5
    """Maximum number of connections to one database with one account."""
