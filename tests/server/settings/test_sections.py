import base64
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.memories.memory_settings import MemorySections
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.encryption_section import EncryptionKeySection, to_keys
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.server_section import ServerSection
from tests.harness.rows import each_row


def test_the_embedding_model_has_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFLOW_LG_KNOWLEDGE__EMBEDDING_MODEL", "m@P")
    with pytest.raises(ValidationError, match="embedding"):
        Settings.model_validate({"memories": {"facts": {"embedding": "m@Q"}}})
    settings = Settings.model_validate({"memories": {"facts": {"embedding_model": "m@Q"}}})
    assert settings.default_embedding == "m@P"
    assert settings.section(MemorySections)["facts"].settings("facts").embedding_model == "m@Q"


def test_a_metrics_key_has_a_minimum_length() -> None:
    ServerSection(metrics_key=SecretStr("x" * 16))
    with pytest.raises(ValidationError, match="16 characters"):
        ServerSection(metrics_key=SecretStr("geheim"))


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
