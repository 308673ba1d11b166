import json
import sqlite3
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.sessions.session_pruning import PruneLimits
from ragflow_lg.server.cli.sessions import (
    _cancel,  # pyright: ignore[reportPrivateUsage] - the command without its event loop
    _list_or_delete,  # pyright: ignore[reportPrivateUsage] - the command without its event loop
    _prune,  # pyright: ignore[reportPrivateUsage] - the command without its loop
)
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.fakes.canvas import canvas
from tests.fakes.regions import form, out
from tests.server.cli.command import invoke
from tests.stores import OpenStore


async def test_a_session_without_a_process_is_interrupted(
    reopen: OpenStore, capsys: pytest.CaptureFixture[str]
) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", "anna", "anna"))

        async def first_row() -> list[str]:
            await _list_or_delete(store, [], None)
            return capsys.readouterr().out.split()[:2]

        assert await first_row() == ["anna", "interrupted"]
        async with hold_lease(store.leases, "anna"):
            assert await first_row() == ["anna", "running"]
            await _list_or_delete(store, [], 0)
            assert capsys.readouterr().out.startswith("anna was not deleted: it is running in process ")
        await _list_or_delete(store, [], 0)
        assert capsys.readouterr().out == "deleted anna\n"


def test_a_store_without_sessions_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("sessions", "--checkpoint", "memory://").stderr.startswith("memory:// has no sessions.")
    with sqlite3.connect("ragflow-lg.db"):
        pass  # an empty file
    listed = invoke("sessions")
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert listed.stderr == "sqlite:///ragflow-lg.db has no sessions. --checkpoint names another store.\n"


def test_old_turns_are_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text(json.dumps(canvas(out("{sys.query}"))))
    for session in ("anna", "anna", "anna", "ben"):
        assert invoke("run", tmp_path / "c.json", "x" * 3000, "--session", session).exit_code == 0
    steps = len(invoke("sessions", "history", "anna").stdout.splitlines())
    planned = invoke("sessions", "prune", "anna", "--keep-turns", "1", "--dry-run").stdout
    assert planned.startswith(f"anna: would delete {steps * 2 // 3} checkpoints, ")
    assert planned.endswith(" kB of content)\n")
    assert len(invoke("sessions", "history", "anna").stdout.splitlines()) == steps
    assert invoke("sessions", "prune", "--older-than", "1").stdout.split("\n")[:2] == [
        "ben: nothing to delete",
        "anna: nothing to delete",
    ]
    done = invoke("sessions", "prune", "--keep-turns", "1").stdout
    assert done == f"ben: nothing to delete\n{planned.replace('would delete', 'deleted')}"
    assert len(invoke("sessions", "history", "anna").stdout.splitlines()) == steps // 3
    assert invoke("run", tmp_path / "c.json", "again", "--session", "anna").exit_code == 0
    for words in ([], ["anna"]):
        refused = invoke("sessions", "prune", *words)
        assert (refused.exit_code, "Say which turns to keep" in refused.stderr) == (2, True)
    assert "no session 'carl'" in str(invoke("sessions", "prune", "carl", "--keep-turns", "1").exception)


def test_a_damaged_session_does_not_keep_others_from_being_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text(json.dumps(canvas(out("{sys.query}"))))
    stored = ("--checkpoint", "sqlite:///s.db")
    for session in ("anna", "anna", "ben", "ben", "carl", "carl"):
        assert invoke("run", tmp_path / "c.json", "x" * 3000, "--session", session, *stored).exit_code == 0
    with sqlite3.connect("s.db") as database:
        thread = thread_of_session("ben")
        assert database.execute(
            "UPDATE session_checkpoints SET metadata = 'zz' WHERE thread_id = ?", (thread,)
        ).rowcount
    result = invoke("sessions", "prune", "--keep-turns", "1", *stored)
    carl, ben, anna = result.stdout.splitlines()
    assert (carl[:14], anna[:14]) == ("carl: deleted ", "anna: deleted ")
    assert ben.startswith("ben was not changed: The session is damaged in its store")
    assert "ragflow-lg sessions --delete ben" in str(result.exception)


async def test_a_running_session_is_left_out(reopen: OpenStore, capsys: pytest.CaptureFixture[str]) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", "anna", "anna"))
        async with hold_lease(store.leases, "anna"):
            await _prune(store, [], PruneLimits(1), False)
            assert capsys.readouterr().out.startswith("anna was not changed: it is running in process ")
            with pytest.raises(SessionBusyError):
                await _prune(store, ["anna"], PruneLimits(1), False)


def test_nodes_are_listed_by_id_and_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    titled = {"nodes": [{"id": "Form:A", "data": {"name": "Which size?"}}], "edges": []}
    document = canvas({"Form:A": form("size", downstream=["out"]), **out("x")}, graph=titled)
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert invoke("run", tmp_path / "c.json", "hi", "--session", "s").exit_code == 0
    newest, second, oldest = invoke("sessions", "history", "s").stdout.splitlines()
    assert newest.endswith("next: Form:A (Which size?)")
    assert second.endswith("next: begin")
    assert oldest.endswith("next: the input of begin")
    assert invoke("resume", "s", "--input", "size=1").exit_code == 0
    newest, second, *_ = invoke("sessions", "history", "s").stdout.splitlines()
    assert newest.endswith("next: –")
    assert second.endswith("next: the end of the turn")


async def test_the_message_says_what_was_cancelled(reopen: OpenStore) -> None:
    async with reopen() as store:
        with pytest.raises(CheckpointError, match="no session 'anna'"):
            await _cancel(store, "anna", None, Settings())
        await store.runs.put(RunRecord("r", "anna", "anna"))
        assert await _cancel(store, "anna", None, Settings()) == "No turn is running in 'anna'."
        requests: list[str] = []
        async with hold_lease(store.leases, "anna"), store.cancels.watch("anna", lambda: requests.append("anna")):
            assert (await _cancel(store, "anna", None, Settings())).startswith("Asked process ")
