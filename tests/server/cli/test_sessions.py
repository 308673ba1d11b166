import sqlite3
from collections.abc import Awaitable

import pytest

from ragflow_lg.base.errors import SessionBusyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.sessions.session_pruning import PruneLimits
from ragflow_lg.server.cli.session_transfer import _delete, _delete_found  # pyright: ignore[reportPrivateUsage]
from ragflow_lg.server.cli.sessions import _cancel, _print_sessions, _prune  # pyright: ignore[reportPrivateUsage] - the commands without their event loop
from ragflow_lg.server.runs.stored_sessions import Selected
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.fakes.regions import form, out
from tests.server.cli.command import invoke, save


async def test_a_running_session_is_neither_deleted_nor_pruned(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_store("memory://") as store:
        await store.runs.put(RunRecord("r", "anna", "anna"))

        async def shown(command: Awaitable[object]) -> str:
            await command
            return capsys.readouterr().out

        assert (await shown(_print_sessions(store))).split()[:2] == ["anna", "interrupted"]
        assert await _cancel(store, "anna", None, Settings()) == "No turn is running in 'anna'."
        requests: list[str] = []
        async with hold_lease(store.leases, "anna"), store.cancels.watch("anna", lambda: requests.append("anna")):
            assert (await shown(_print_sessions(store))).split()[:2] == ["anna", "running"]
            deleted = await shown(_delete(store, Settings(), "memory://", [], "", 0))
            assert deleted.startswith("anna was not deleted: it is running in process ")
            assert await shown(_delete_found(store, [Selected("anna", "anna")], None, 0.0)) == ""  # it is not old
            pruned = await shown(_prune(store, [], PruneLimits(1), False))
            assert pruned.startswith("anna was not changed: it is running in process ")
            with pytest.raises(SessionBusyError):
                await _prune(store, ["anna"], PruneLimits(1), False)
            assert (await _cancel(store, "anna", None, Settings())).startswith("Asked process ")
        assert (
            await shown(_delete(store, Settings(), "memory://", [], "", 0)) == "deleted anna: 0 checkpoints and 1 run\n"
        )


def test_a_store_without_sessions_is_named() -> None:
    assert invoke("sessions", "--checkpoint", "memory://").stderr.startswith("memory:// has no sessions.")
    with sqlite3.connect("ragflow-lg.db"):
        pass  # an empty file
    listed = invoke("sessions")
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert listed.stderr == "sqlite:///ragflow-lg.db has no sessions. --checkpoint names another store.\n"


def test_old_turns_are_pruned() -> None:
    save("c.json", out("{sys.query}"))
    for session in ("anna", "anna", "anna", "ben"):
        assert invoke("run", "c.json", "x" * 3000, "--session", session).exit_code == 0
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
    assert invoke("run", "c.json", "again", "--session", "anna").exit_code == 0
    for words in ([], ["anna"]):
        refused = invoke("sessions", "prune", *words)
        assert (refused.exit_code, "Say which turns to keep" in refused.stderr) == (2, True)
    assert "no session 'carl'" in str(invoke("sessions", "prune", "carl", "--keep-turns", "1").exception)


def test_a_damaged_session_does_not_keep_others_from_being_pruned() -> None:
    save("c.json", out("{sys.query}"))
    stored = ("--checkpoint", "sqlite:///s.db")
    for session in ("anna", "anna", "ben", "ben", "carl", "carl"):
        assert invoke("run", "c.json", "x" * 3000, "--session", session, *stored).exit_code == 0
    with sqlite3.connect("s.db") as database:
        thread = thread_of_session("ben")
        assert database.execute(
            "UPDATE session_checkpoints SET metadata = 'zz' WHERE thread_id = ?", (thread,)
        ).rowcount
    result = invoke("sessions", "prune", "--keep-turns", "1", *stored)
    carl, ben, anna = result.stdout.splitlines()
    assert (carl[:14], anna[:14]) == ("carl: deleted ", "anna: deleted ")
    assert ben.startswith("ben was not changed: The session is damaged in its store")
    assert "ragflow-lg sessions delete ben" in str(result.exception)


@pytest.mark.parametrize("words", [["--user", "u1"], ["--user", "u1", "ben", "carl"]])
def test_a_damaged_session_does_not_keep_others_of_its_user_from_being_deleted(words: list[str]) -> None:
    save("c.json", out("{sys.query}"))
    for session in ("anna", "ben", "carl"):
        assert invoke("run", "c.json", "x", "--session", f"{session}-0").exit_code == 0
        changed = ("--set", "sys.user_id=u1", "--as", session)
        assert invoke("sessions", "rerun", f"{session}-0", "--from", "begin", *changed).exit_code == 0
    with sqlite3.connect("ragflow-lg.db") as database:
        thread = thread_of_session("ben")
        database.execute("UPDATE session_checkpoints SET metadata = 'zz' WHERE thread_id = ?", (thread,))
    result = invoke("sessions", "delete", *words)
    deleted = ["carl"] if "carl" in words else ["carl", "anna"]
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == [f"deleted {name}" for name in deleted]
    problem = "Whose sessions these are is unknown, so they were not deleted: ben (The session is damaged in its store"
    assert str(result.exception).startswith(problem)


def test_subcommands_take_the_options_before_them() -> None:
    """They were ignored: a session of another store was deleted."""
    save("c.json", out("{sys.query}"))
    other = ("--checkpoint", "sqlite:///s.db")
    for options in ((), other):
        assert invoke("run", "c.json", "x", "--session", "anna", *options).exit_code == 0
    assert invoke("sessions", *other, "delete", "anna").stdout.startswith("deleted anna")
    assert invoke("sessions", *other, "list").stdout == ""
    assert invoke("sessions", "--checkpoint", "memory://", "list", *other).stderr.startswith("sqlite:///s.db has no")
    assert invoke("sessions").stdout.startswith("anna ")
    assert "no.toml" in str(invoke("sessions", "--settings", "no.toml", "history", "anna").exception)


def test_nodes_are_listed_by_id_and_title() -> None:
    titled = {"nodes": [{"id": "Form:A", "data": {"name": "Which size?"}}], "edges": []}
    save("c.json", {"Form:A": form("size", downstream=["out"]), **out("x")}, graph=titled)
    assert invoke("run", "c.json", "hi", "--session", "s").exit_code == 0
    newest, second, oldest = invoke("sessions", "history", "s").stdout.splitlines()
    assert newest.endswith("next: Form:A (Which size?)")
    assert second.endswith("next: begin")
    assert oldest.endswith("next: the input of begin")
    assert invoke("resume", "s", "--input", "size=1").exit_code == 0
    newest, second, *_ = invoke("sessions", "history", "s").stdout.splitlines()
    assert newest.endswith("next: –")
    assert second.endswith("next: the end of the turn")
