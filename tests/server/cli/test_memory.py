import asyncio
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.assembly.knowledge_sources import SettingsKnowledge
from ragflow_lg.server.assembly.memories import open_memories
from ragflow_lg.server.settings import load_settings
from ragflow_lg.services.memories import Exchange
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.services import OneModel, ScriptedModel
from tests.server.cli.command import invoke

SETTINGS = """
checkpoints = "sqlite:///{folder}/memories.db"
[memories.notes]
types = ["raw"]
[memories.other]
types = ["raw"]
"""


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """Memories with two entries about Anna, and one about Ben."""
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS.format(folder=tmp_path))

    async def fill() -> None:
        settings = load_settings(path)
        models = OneModel(ScriptedModel())
        knowledge = SettingsKnowledge(settings)
        async with open_memories(settings, knowledge, models, SystemClock(), NoWorkers()) as memories:
            await memories.remember(["notes"], Exchange("k1", "anna", "I drink tea", "Fine."))
            await memories.remember(["other"], Exchange("k2", "anna", "I have a hat", "Fine."))
            await memories.remember(["notes"], Exchange("k3", "ben", "I drink coffee", "Fine."))
            await memories.remember(["notes"], Exchange("k4", "", "Nobody speaks", "Fine."))

    asyncio.run(fill())
    return {"RAGFLOW_LG_SETTINGS": str(path)}


def test_memories_users_and_entries_are_listed(environment: Mapping[str, str]) -> None:
    output = invoke("memory", "list", environment=environment).stdout
    assert output.splitlines() == ["notes  raw  3 users", "other  raw  1 user"]
    users = invoke("memory", "list", "notes", environment=environment).stdout
    assert users.splitlines() == ["''  1 entry", "anna  1 entry", "ben  1 entry"]
    entries = invoke("memory", "list", "notes", "--user", "anna", environment=environment).stdout
    assert entries.splitlines()[1] == "   User: I drink tea Assistant: Fine."
    assert "Nobody" in invoke("memory", "list", "notes", "--user", "", environment=environment).stdout
    nobody = invoke("memory", "list", "notes", "--user", "carl", environment=environment).stdout
    assert nobody == "Nothing is remembered about this user.\n"


def test_a_memory_is_searched(environment: Mapping[str, str]) -> None:
    output = invoke("memory", "search", "notes", "Who drinks tea?", "--user", "anna", "--json", environment=environment)
    (entry,) = map(json.loads, output.stdout.splitlines())
    assert (entry["key"], entry["user"], entry["similarity"] > 0.2) == ("k1", "anna", True)
    other = invoke("memory", "search", "notes", "zebra", "--user", "anna", environment=environment).stdout
    assert other == "Nothing matches the question.\n"


def test_memories_are_embedded_again_after_a_change_of_the_model(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "memories.db")) as connection:
        text = "CAST(value AS TEXT)"
        change = f"UPDATE store SET value = replace({text}, ?, ?) WHERE {text} LIKE '%vector%'"
        assert connection.execute(change, ('"model":"', '"model":"earlier ')).rowcount == 4
        connection.commit()
    found = ["memory", "search", "notes", "Who drinks tea?", "--user", "anna"]
    assert invoke(*found, environment=environment).stdout == "Nothing matches the question.\n"
    first = invoke("memory", "reembed", "other", environment=environment)
    assert first.stdout == "embedded 1 entry again\n"
    second = invoke("memory", "reembed", environment=environment)
    assert second.stdout == "embedded 3 entries again\n"
    assert "I drink tea" in invoke(*found, environment=environment).stdout
    with pytest.raises(SettingsError, match="There is no memory 'none'"):
        raise invoke("memory", "reembed", "none", environment=environment).exception or AssertionError


def test_everything_about_a_user_is_exported(environment: Mapping[str, str], tmp_path: Path) -> None:
    file = tmp_path / "anna.jsonl"
    assert invoke("memory", "export", "--user", "anna", "-o", file, environment=environment).exit_code == 0
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == ["k1", "k2"]
    assert len(invoke("memory", "export", "--user", "ben", environment=environment).stdout.splitlines()) == 1
    assert invoke("memory", "export", "--user", "anna", "-o", tmp_path, environment=environment).exit_code == 2


def test_everything_about_a_user_is_deleted(environment: Mapping[str, str]) -> None:
    refused = invoke("memory", "delete", "--user", "anna", text="n\n", environment=environment)
    assert refused.exit_code == 1
    output = invoke("memory", "delete", "--user", "anna", "--yes", environment=environment).stdout
    assert output == "deleted 2 entries\n"
    assert invoke("memory", "export", "--user", "anna", environment=environment).stdout == ""
    assert len(invoke("memory", "export", "--user", "ben", environment=environment).stdout.splitlines()) == 1


def test_one_entry_is_deleted(environment: Mapping[str, str]) -> None:
    arguments = ("memory", "delete", "notes", "--user", "anna", "--key")
    assert invoke(*arguments, "gone", environment=environment).stdout == "deleted 0 entries\n"
    assert invoke(*arguments, "k1", environment=environment).stdout == "deleted 1 entry\n"
    without = invoke("memory", "delete", "--user", "anna", "--key", "k2", environment=environment)
    assert without.exit_code == 2


def test_what_does_not_exist_is_named(environment: Mapping[str, str], tmp_path: Path) -> None:
    failed = invoke("memory", "list", "gone", environment=environment).exception
    assert isinstance(failed, SettingsError)
    assert "There is no memory 'gone'" in str(failed)
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    none = invoke("memory", "list", environment={"RAGFLOW_LG_SETTINGS": str(empty)}).exception
    assert "declare no memory" in str(none)


def test_tenants_are_apart(environment: Mapping[str, str]) -> None:
    assert invoke("memory", "export", "--user", "anna", "--tenant", "shop", environment=environment).stdout == ""
