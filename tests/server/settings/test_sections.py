import base64
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.account_sections import ConnectionSection
from ragflow_lg.server.settings.encryption_section import EncryptionKeySection, to_keys
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.server_section import ServerSection
from ragflow_lg.services.databases import DatabaseAccount
from tests.harness.rows import each_row


@pytest.mark.parametrize("name", ["embedding", "embedding_model"])
def test_the_embedding_model_has_one_name_and_an_old_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"RAGFLOW_LG_KNOWLEDGE__{name.upper()}", "m@P")
    settings = Settings.model_validate({"memories": {"facts": {name: "m@Q"}}})
    assert settings.default_embedding == "m@P"
    assert settings.memories["facts"].settings("facts").embedding_model == "m@Q"


def test_a_metrics_key_has_a_minimum_length() -> None:
    assert ServerSection(metrics="key", metrics_key=SecretStr("x" * 16)).metrics == "key"
    with pytest.raises(ValidationError, match="16 characters"):
        ServerSection(metrics="key", metrics_key=SecretStr("geheim"))


def settings(**sections: Any) -> Settings:
    return Settings(**sections)


SHOP = {"db_type": "postgres", "host": "db", "database": "shop", "username": "reader"}


def test_a_connection_has_the_default_port_and_a_password_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "secret-password-1")
    shop = {**SHOP, "password": {"env": "SHOP_PASSWORD"}, "options": {"sslpassword": "a-long-secret-option"}}
    read = settings(sql={"connections": {"shop": shop, "files": {"db_type": "sqlite", "database": "a.db"}}})
    connections = read.sql.settings().connections
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
    assert read.sql.settings().connections["shop"].allow_writes is expected
    assert read.sql.settings().allow_writes is everywhere


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


KEY = base64.b64encode(b"k" * 32).decode()


def test_keys_are_read_from_variables_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("NEW_KEY", base64.b64encode(b"n" * 32).decode())
    sections = (
        EncryptionKeySection(id="new", key=Secret(env="NEW_KEY")),
        EncryptionKeySection(id="old", key=Secret(file=str(tmp_path / "key"))),
    )
    settings = Settings(encryption_keys=sections)
    keys = settings.store_options["keys"]
    assert [(key.id, key.secret) for key in keys] == [("new", b"n" * 32), ("old", b"k" * 32)]
    assert KEY in settings.secrets
    for shown in (repr(keys), repr(settings), settings.model_dump_json()):
        assert KEY not in shown
        assert "kkkk" not in shown


@each_row(
    ("fields", "message"),
    [
        ({"key": {"env": "NO_SUCH"}}, "'k' is missing: the environment variable 'NO_SUCH' is not set. Put the key"),
        ({"key": {"file": "/no/such"}}, "'k' is missing: the file '/no/such' cannot be read, or is empty"),
        ({}, "'k' is missing: set `key`"),
        ({"key": "c2hvcnQ="}, "'k' is not 32 bytes in Base64"),
        ({"key": "not base64 §"}, "'k' is not 32 bytes in Base64"),
    ],
)
def test_a_missing_or_wrong_key_is_reported_without_its_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        to_keys((EncryptionKeySection.model_validate({"id": "k", **fields}),))
    assert str(fields.get("key", "§§")) not in str(caught.value)


def test_two_keys_need_two_names() -> None:
    with pytest.raises(SettingsError, match="Two encryption keys have the name 'k'"):
        to_keys((EncryptionKeySection.model_validate({"id": "k", "key": KEY}),) * 2)
