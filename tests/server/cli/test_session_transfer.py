import re
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.regions import form, out
from tests.server.cli.command import call, save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a canvas, a session that waits at its form, and one of a user."""
    save("c.json", {"ask": form("size", downstream=["out"]), **out("{ask@size}")})
    assert call("run", "c.json", "x" * 3000, "--session", "anna").returncode == 0
    save("d.json", out("{sys.query}"))
    assert call("run", "d.json", "hello", "--session", "ben").returncode == 0
    return tmp_path


def test_sessions_move_to_another_store_and_go_on(folder: Path) -> None:
    exported = call("sessions", "export", "-o", "all.jsonl")
    assert (exported.returncode, exported.stdout, exported.stderr) == (0, "", "Exported 2 sessions.\n")
    assert stat.S_IMODE((folder / "all.jsonl").stat().st_mode) == 0o600
    assert call("sessions", "export").stdout == (folder / "all.jsonl").read_text()
    there = ("--checkpoint", "sqlite:///there.db")
    imported = call("sessions", "import", "all.jsonl", *there)
    assert imported.returncode == 0
    lines = imported.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["imported ben", "imported anna"]
    assert re.fullmatch(r"imported anna: \d+ checkpoints and 1 run", lines[1])
    assert call("sessions", "history", "anna", *there).stdout == call("sessions", "history", "anna").stdout
    answered = call("resume", "anna", "--input", "size=4", "--events", "pretty", *there)
    assert answered.returncode == 0
    assert "4" in answered.stdout
    again = call("sessions", "import", "all.jsonl", *there)
    assert again.returncode == 2
    assert "The session 'ben' exists already. To replace it, add --replace." in again.stderr
    assert call("sessions", "import", "all.jsonl", "--replace", *there).returncode == 0


def test_a_session_that_cannot_be_read_does_not_prevent_the_export_of_others(folder: Path) -> None:
    with closing(sqlite3.connect("ragflow-lg.db")) as store, store:
        damage = "UPDATE session_blobs SET content = CAST('x' || content AS BLOB) WHERE length(content) > 2500"
        store.execute(damage)  # only anna has such long texts
    exported = call("sessions", "export", "-o", "all.jsonl")
    assert exported.returncode == 1
    assert "anna was not exported: " in exported.stderr
    assert exported.stderr.endswith("Exported 1 session.\n")
    imported = call("sessions", "import", "all.jsonl", "--checkpoint", "sqlite:///there.db")
    assert [line.partition(":")[0] for line in imported.stdout.splitlines()] == ["imported ben"]
    assert call("sessions", "export", "ben", "anna", "-o", "two.jsonl").returncode == 2
    assert not (folder / "two.jsonl").exists()


def test_deleting_says_what_was_deleted_and_leaves_nothing(folder: Path) -> None:
    assert call("sessions", "delete").returncode == 2
    assert (
        call("sessions", "rerun", "ben", "--from", "begin", "--set", "sys.user_id=u1", "--as", "dora").returncode == 0
    )
    of_user = call("sessions", "export", "--user", "u1")
    assert of_user.stderr == "Exported 1 session.\n"
    assert '"name":"dora"' in of_user.stdout
    assert call("sessions", "delete", "--user", "nobody").stderr == "There are no such sessions.\n"
    deleted = call("sessions", "delete", "anna", "carl")
    assert deleted.stdout.startswith("deleted anna: ")
    assert " checkpoints and 1 run\n" in deleted.stdout
    assert deleted.returncode == 2
    assert "There is no session 'carl'" in deleted.stderr
    assert b"xxxx" not in (folder / "ragflow-lg.db").read_bytes()
    assert sorted(line.split()[0] for line in call("sessions").stdout.splitlines()) == ["ben", "dora"]


def test_damaged_sessions_are_deleted(folder: Path) -> None:
    assert call("run", "d.json", "hello", "--session", "ben").returncode == 0
    with closing(sqlite3.connect("ragflow-lg.db")) as store, store:
        store.execute("UPDATE runs SET status = 'nonsense' WHERE name = 'anna'")
        oldest = "SELECT min(started_ms) FROM runs WHERE name = 'ben'"
        store.execute(f"UPDATE runs SET status = 'nonsense' WHERE started_ms = ({oldest})")
    assert call("sessions", "delete", "anna").stdout.startswith("deleted anna: ")
    assert call("sessions", "delete", "--older-than", "0").stdout.startswith("deleted ben: ")


def test_deleting_needs_no_extra_of_the_server(folder: Path) -> None:
    program = (
        "import sys\nsys.modules['sqlalchemy'] = None\nsys.argv[1:] = ['sessions', 'delete', 'ben']\n"
        "from ragflow_lg.server.cli.entry import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:13]) == (0, "deleted ben: "), done.stderr
