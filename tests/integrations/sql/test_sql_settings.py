"""The section of databases, and what doctor says of them."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.integrations.sql.configured_databases import probe_databases
from ragflow_lg.integrations.sql.sql_settings import ConnectionSection, SqlSection
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.databases import DatabaseAccount
from tests.harness.rows import each_row


def settings(**sections: Any) -> Settings:
    return Settings(**sections)


SHOP = {"db_type": "postgres", "host": "db", "database": "shop", "username": "reader"}


def test_a_connection_has_the_default_port_and_a_password_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "secret-password-1")
    shop = {**SHOP, "password": {"env": "SHOP_PASSWORD"}, "options": {"sslpassword": "a-long-secret-option"}}
    read = settings(sql={"connections": {"shop": shop, "files": {"db_type": "sqlite", "database": "a.db"}}})
    connections = read.section(SqlSection).settings().connections
    assert connections["shop"].account == DatabaseAccount("postgres", "db", 5432, "shop", "reader", "secret-password-1")
    assert connections["shop"].options == {"sslpassword": "a-long-secret-option"}
    assert connections["files"].account.database == "a.db"
    assert {"secret-password-1", "a-long-secret-option"} <= set(read.secrets)
    assert "secret" not in repr(read) + repr(connections)


@each_row(
    ("everywhere", "here", "expected"),
    [(False, None, False), (True, None, True), (True, False, False), (False, True, True)],
)
def test_writes_are_allowed_for_all_connections_or_for_one(everywhere: bool, here: bool | None, expected: bool) -> None:
    read = settings(sql={"allow_writes": everywhere, "connections": {"shop": {**SHOP, "allow_writes": here}}})
    assert read.section(SqlSection).settings().connections["shop"].allow_writes is expected
    assert read.section(SqlSection).settings().allow_writes is everywhere


def test_a_server_needs_a_host_and_errors_contain_no_password() -> None:
    broken = {**SHOP, "host": "", "password": "secret-password-1"}
    with pytest.raises(ValidationError, match="set host") as caught:
        settings(sql={"connections": {"shop": broken}})
    assert "secret-password-1" not in str(caught.value)


@each_row(("db_type", "port"), [("sqlserver", 1433), ("DB2", 50000), (" PostgreSQL ", 5432)])
def test_other_names_of_a_database_have_its_port(db_type: str, port: int) -> None:
    section = ConnectionSection(db_type=db_type, host="h", database="d")
    assert section.settings(allow_writes=False).account.port == port


def test_a_database_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationError, match="There is no database type 'oracle'"):
        ConnectionSection(db_type="oracle", host="h", database="d")


async def test_databases_are_queried(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "shop.db").close()
    nowhere = {"db_type": "postgres", "host": "127.0.0.1", "port": 1, "database": "x"}
    shop = {"db_type": "sqlite", "database": str(tmp_path / "shop.db")}
    far = {**nowhere, "username": "u", "password": "hidden"}
    connections: dict[str, Any] = {"shop": shop, "open": {**shop, "allow_writes": True}, "far": far}
    connections["keyless"] = {**nowhere, "password": {"env": "NOT_SET"}}
    found = await probe_databases(Settings.model_validate({"sql": {"connections": connections}}))
    assert sorted((finding.is_well, finding.what) for finding in found) == [
        (False, "the database [sql.connections.far] cannot be reached"),
        (False, "the database [sql.connections.keyless] cannot be reached"),
        (True, "the database [sql.connections.open] answers (may be changed)"),
        (True, "the database [sql.connections.shop] answers (read-only)"),
    ]
    assert not any("hidden" in finding.advice for finding in found)
