import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.integrations.memories.memory_settings import MemorySettings
from ragflow_lg.integrations.memories.open_memories import open_memories, open_shelves
from ragflow_lg.server.settings import load_settings
from ragflow_lg.services.memories import Exchange
from tests.fakes.services import fake_services
from tests.harness.rows import each_row
from tests.server.cli.command import invoke
from tests.server.cli.conftest import _at_home  # noqa: F401  # pyright: ignore[reportPrivateUsage, reportUnusedImport]

SETTINGS = """
checkpoints = "sqlite:///{folder}/memories.db"
[memories.notes]
types = ["raw"]
[memories.other]
types = ["raw"]
"""


@pytest.fixture(autouse=True)
def _memories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    """Create memories with two entries about Anna, and one about Ben."""
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS.format(folder=tmp_path))
    monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(path))

    async def fill() -> None:
        settings = load_settings(path)
        async with open_memories(settings, fake_services(clock=SystemClock())) as memories:
            for memory, key, user, text in (
                ("notes", "k1", "anna", "I drink tea"),
                ("other", "k2", "anna", "I have a hat"),
                ("notes", "k3", "ben", "I drink coffee"),
                ("notes", "k4", "", "Nobody speaks"),
            ):
                await memories.remember([memory], Exchange(key, user, text, "Fine."))

    asyncio.run(fill())


def test_memories_that_were_created_over_http_belong_to_their_tenant() -> None:
    async def create() -> None:
        async with open_shelves(load_settings(None)) as shelves:
            await shelves.created.put("shop", MemorySettings("a" * 32, "Notes", types=("raw",), create_ms=1))

    asyncio.run(create())
    assert len(invoke("memory", "list").stdout.splitlines()) == 2
    assert invoke("memory", "list", "--tenant", "shop").stdout.splitlines()[2] == f"{'a' * 32}  raw  0 users"
    found = invoke("memory", "search", "a" * 32, "tea", "--user", "anna", "--tenant", "shop")
    assert (found.exit_code, found.stdout) == (0, "Nothing matches the question.\n")


@each_row(
    ("words", "lines"),
    [
        ([], ["notes  raw  3 users", "other  raw  1 user"]),
        (["notes"], ["''  1 entry", "anna  1 entry", "ben  1 entry"]),
        (["notes", "--user", "carl"], ["Nothing is remembered about this user."]),
    ],
)
def test_memories_users_and_entries_are_listed(words: list[str], lines: list[str]) -> None:
    assert invoke("memory", "list", *words).stdout.splitlines() == lines
    entries = invoke("memory", "list", "notes", "--user", "anna").stdout
    assert entries.splitlines()[1] == "   User: I drink tea Assistant: Fine."
    assert "Nobody" in invoke("memory", "list", "notes", "--user", "").stdout


def test_a_memory_is_searched() -> None:
    output = invoke("memory", "search", "notes", "Who drinks tea?", "--user", "anna", "--json")
    (entry,) = map(json.loads, output.stdout.splitlines())
    assert (entry["key"], entry["user"], entry["similarity"] > 0.2) == ("k1", "anna", True)
    other = invoke("memory", "search", "notes", "zebra", "--user", "anna").stdout
    assert other == "Nothing matches the question.\n"


def test_memories_are_embedded_again_after_a_change_of_the_model(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "memories.db")) as connection:
        text = "CAST(value AS TEXT)"
        change = f"UPDATE store SET value = replace({text}, ?, ?) WHERE {text} LIKE '%vector%'"
        assert connection.execute(change, ('"model":"', '"model":"earlier ')).rowcount == 4
        connection.commit()
    found = ["memory", "search", "notes", "Who drinks tea?", "--user", "anna"]
    assert invoke(*found).stdout == "Nothing matches the question.\n"
    first = invoke("memory", "reembed", "other")
    assert first.stdout == "embedded 1 entry again\n"
    second = invoke("memory", "reembed")
    assert second.stdout == "embedded 3 entries again\n"
    assert "I drink tea" in invoke(*found).stdout


def test_everything_about_a_user_is_exported_and_deleted() -> None:
    assert invoke("memory", "export", "--user", "anna", "-o", "anna.jsonl").exit_code == 0
    assert [json.loads(line)["key"] for line in Path("anna.jsonl").read_text().splitlines()] == ["k1", "k2"]
    assert invoke("memory", "export", "--user", "anna", "-o", ".").exit_code == 2
    assert invoke("memory", "export", "--user", "anna", "--tenant", "shop").stdout == ""
    assert invoke("memory", "delete", "--user", "anna", text="n\n").exit_code == 1
    assert invoke("memory", "delete", "--user", "anna", "--yes").stdout == "deleted 2 entries\n"
    assert invoke("memory", "export", "--user", "anna").stdout == ""
    assert len(invoke("memory", "export", "--user", "ben").stdout.splitlines()) == 1


def test_one_entry_is_deleted() -> None:
    arguments = ("memory", "delete", "notes", "--user", "anna", "--key")
    assert invoke(*arguments, "gone").stdout == "deleted 0 entries\n"
    assert invoke(*arguments, "k1").stdout == "deleted 1 entry\n"
    without = invoke("memory", "delete", "--user", "anna", "--key", "k2")
    assert without.exit_code == 2


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    for command in ("list", "reembed"):
        assert "There is no memory 'gone'" in str(invoke("memory", command, "gone").exception)
    (empty := tmp_path / "empty.toml").touch()
    none = invoke("memory", "list", environment={"RAGFLOW_LG_SETTINGS": str(empty)}).exception
    assert "declare no memory" in str(none)
