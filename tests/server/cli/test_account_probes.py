"""What doctor says of databases and keys of tools."""

import sqlite3
from pathlib import Path

import pytest

from ragflow_lg.server.cli.doctor import probe_databases, probe_tool_keys
from ragflow_lg.server.settings import Settings


async def test_databases_are_queried(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    sqlite3.connect(path).close()
    nowhere = {
        "db_type": "postgres",
        "host": "127.0.0.1",
        "port": 1,
        "database": "x",
        "username": "u",
        "password": "hidden",
    }
    shop = {"db_type": "sqlite", "database": str(path)}
    settings = Settings.model_validate(
        {"sql": {"connections": {"shop": shop, "open": {**shop, "allow_writes": True}, "far": nowhere}}}
    )
    first, second, third = await probe_databases(settings)
    assert (first.is_well, first.what) == (True, "the database [sql.connections.shop] answers (read-only)")
    assert (second.is_well, second.what) == (True, "the database [sql.connections.open] answers (may be changed)")
    assert (third.is_well, third.what) == (False, "the database [sql.connections.far] cannot be reached")
    assert "hidden" not in third.advice


async def test_without_accounts_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await probe_databases(Settings()) == []
    assert probe_tool_keys(Settings()) == []
    settings = Settings.model_validate({"tools": {"tavily": {"api_key": "k"}, "deepl": {"api_key": "k"}, "github": {}}})
    (found,) = probe_tool_keys(settings)
    assert found.what == "the settings contain keys for deepl, tavily"


async def test_a_variable_with_a_password_that_is_not_set_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setenv("IS_SET", "secret")
    account = {"db_type": "postgres", "host": "127.0.0.1", "port": 1, "database": "x"}
    connections = {"a": {**account, "password": {"env": "NOT_SET"}}, "b": {**account, "password": {"env": "IS_SET"}}}
    settings = Settings.model_validate({"sql": {"connections": connections}})
    first, *others = await probe_databases(settings)
    assert (first.is_well, first.what) == (False, "[sql.connections.a] has no password")
    assert first.advice.startswith("The environment variable 'NOT_SET' is not set. Put the password there")
    assert len(others) == 2
