"""Settings for databases, and their section. Reading them does not import SQLAlchemy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Struct, field
from pydantic import Field, SecretStr, field_validator, model_validator

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.sql.database_kinds import find_kind
from ragflow_lg.server.settings.sections import AccountSection, Section
from ragflow_lg.services.databases import DatabaseAccount

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings


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


class ConnectionSection(AccountSection):
    """``[sql.connections.NAME]``: a database that canvases use by this name."""

    db_type: str
    """As in RAGFlow: mysql, mariadb, oceanbase, postgres, mssql, IBM DB2 or trino; or sqlite."""
    host: str = ""
    port: Annotated[int, Field(ge=0, lt=65536)] = 0
    """0 is the default port of the database."""
    database: str
    """Its name; for sqlite, the path of its file."""
    username: str = ""
    allow_writes: bool | None = None
    """Whether statements may change it. Default: ``[sql] allow_writes``."""
    options: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """Options of the driver, such as ``sslmode`` of psycopg or ``ssl_ca`` of asyncmy."""

    @field_validator("db_type")
    @classmethod
    def _is_known(cls, value: str) -> str:
        try:
            find_kind(value)
        except ServiceError as error:
            raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _has_a_host(self) -> ConnectionSection:
        if find_kind(self.db_type).is_server and not self.host:
            raise ValueError("set host")
        return self

    def settings(self, *, allow_writes: bool) -> ConnectionSettings:
        """Return the connection. ``allow_writes`` is the default."""
        port = self.port or find_kind(self.db_type).port
        account = DatabaseAccount(self.db_type, self.host, port, self.database, self.username, self.password.read())
        options = {name: value.get_secret_value() for name, value in self.options.items()}
        writes = allow_writes if self.allow_writes is None else self.allow_writes
        return ConnectionSettings(account, options, writes)


class SqlSection(Section):
    """``[sql]``: the databases that ExeSQL queries. Requires ``ragflow-lg[sql]``."""

    shared: ClassVar[str] = "connections"

    connections: dict[str, ConnectionSection] = Field(default_factory=dict[str, ConnectionSection])
    allow_writes: bool = False
    """Whether statements may change databases, also those that canvases name themselves."""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 30.0
    """Time limit for a statement, which the server then stops."""
    max_rows: Annotated[int, Field(gt=0)] = 10_000
    """Maximum number of rows for each statement, whatever ``max_records`` of the canvas says."""

    def settings(self) -> SqlSettings:
        """Return the settings for the databases."""
        connections = {name: c.settings(allow_writes=self.allow_writes) for name, c in self.connections.items()}
        return SqlSettings(connections, **self.model_dump(exclude={"connections"}))

    def secrets(self) -> list[str]:
        """Return all passwords and options."""
        options = [value.get_secret_value() for c in self.connections.values() for value in c.options.values()]
        return [*(c.password.read() for c in self.connections.values()), *(o for o in options if len(o) >= 16)]


def find_problem(settings: Settings, name: str) -> str:
    """Return what is wrong with the name of a connection, or ``""``."""
    if name in settings.section(SqlSection).connections:
        return ""
    return f"There is no database connection {name[:80]!r}. Add [sql.connections.{name[:80]}] to the settings."
