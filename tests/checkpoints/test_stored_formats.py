"""Sessions of every format so far can be read, shown, continued and rerun."""

import json
import shutil
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import NewerSessionError
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.steps.checkpoint_texts import FORMAT
from ragflow_lg.checkpoints.steps.saver_operations import checkpoint_key
from tests.harness.session_fixtures import (
    ENCRYPTED,
    FIXTURES,
    KEY,
    LONG,
    LONG_TURNS,
    STEP,
    WAITING,
    WIDE,
    play,
    read_states,
    restore_keys,
    runner_on,
    step_config,
)
from tests.stores import fresh_prefix, store_opener

FORMATS = sorted(path.name for path in FIXTURES.iterdir())


@pytest.fixture(params=[f"{kind} {name}" for name in FORMATS for kind in ("sqlite", "redis")])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, str, str]:
    """The kind of store, the folder of a format, and the URL and prefix of a store to fill."""
    kind, name = request.param.split()
    url = request.getfixturevalue("redis_url") if kind == "redis" else f"sqlite:///{tmp_path}/sessions.db"
    return kind, FIXTURES / name, url, fresh_prefix()


@asynccontextmanager
async def restored(kind: str, folder: Path, url: str, prefix: str) -> AsyncGenerator[Store]:
    """Open a store with the sessions of a format."""
    if kind == "sqlite":
        shutil.copy(folder / "sessions.db", url.removeprefix("sqlite:///"))
    async with open_store(url, SystemClock(), prefix=prefix) as store:
        if kind == "redis":  # the indexes exist already
            await restore_keys(url, (folder / "redis.jsonl").read_text("utf-8").splitlines(), prefix)
        yield store


def test_todays_format_is_kept() -> None:
    assert [str(number) for number in range(FORMAT + 1)] == FORMATS


async def test_sessions_of_every_format_are_read_and_go_on(stored: tuple[str, Path, str, str]) -> None:
    kind, folder, _, _ = stored
    expected: dict[str, Any] = json.loads((folder / "states.json").read_text("utf-8"))[kind]
    async with restored(*stored) as store:
        for session, states in expected.items():
            assert await read_states(store, folder, session) == states
        assert await store.saver.steps(step_config()).find(STEP) == (True, {"done": "x" * 1100})
        newest = await anext(aiter(store.runs.of_session(WAITING)))
        assert (newest.status, newest.name) == ("waiting", WAITING)
        runner = runner_on(store, folder, WAITING)
        assert [pause.node for pause in await runner.pauses(WAITING)] == ["ask"]
        assert (await play(await runner.rerun(WAITING, "fixture-rerun", "in", round=1))).startswith("round")
        assert (await play(runner.resume(WAITING, {"size": "7"}))).endswith("Size 7")
        runner = runner_on(store, folder, LONG)
        assert await play(runner.start(LONG, {"query": "one more"})) == "one more"
        questions = [text for role, text in (await runner.state(LONG))["history"] if role == "user"]
        assert questions == [*(f"question {number}" for number in range(LONG_TURNS)), "one more"]
        if WIDE in expected:  # since format 2
            assert await play(runner_on(store, folder, WIDE).start(WIDE, {"query": "again"})) == "again"


@pytest.mark.parametrize("name", sorted(path.name for path in ENCRYPTED.iterdir()))
async def test_encrypted_sessions_of_every_format_are_read_and_go_on(tmp_path: Path, name: str) -> None:
    shutil.copy(ENCRYPTED / name / "sessions.db", tmp_path)
    expected: dict[str, Any] = json.loads((ENCRYPTED / name / "states.json").read_text("utf-8"))
    async with store_opener(f"sqlite:///{tmp_path}/sessions.db", keys=[KEY])() as store:
        for session in (WAITING, LONG):
            assert await read_states(store, FIXTURES / name, session) == expected[session]
        assert await store.saver.steps(step_config()).find(STEP) == (True, {"done": "x" * 1100})
        newest = await anext(aiter(store.runs.of_session(WAITING)))
        assert await store.traces.get(newest.run_id) == [{"component_id": "a", "trace": [{"tool_name": "ü"}]}]
        runner = runner_on(store, FIXTURES / name, WAITING)
        assert (await play(runner.resume(WAITING, {"size": "7"}))).endswith("Size 7")
        runner = runner_on(store, FIXTURES / name, LONG)
        assert await play(runner.start(LONG, {"query": "one more"})) == "one more"


async def test_a_newer_format_is_an_error_of_its_session_alone(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    shutil.copy(FIXTURES / str(FORMAT) / "sessions.db", path)
    with sqlite3.connect(path) as connection:
        old, new = f'"format":{FORMAT}'.encode(), f'"format":{FORMAT + 1}'.encode()
        rows: list[tuple[str, str, bytes]] = connection.execute(
            "SELECT thread_id, checkpoint_id, metadata FROM checkpoints WHERE thread_id = ?",
            (step_config()["configurable"]["thread_id"],),
        ).fetchall()
        for thread, checkpoint, metadata in rows:
            changed = metadata.replace(b" ", b"").replace(old, new)
            assert new in changed
            connection.execute(
                "UPDATE checkpoints SET metadata = ? WHERE thread_id = ? AND checkpoint_id = ?",
                (changed, thread, checkpoint),
            )
    folder = FIXTURES / str(FORMAT)
    async with store_opener(f"sqlite:///{path}")() as store:
        with pytest.raises(
            NewerSessionError, match=rf"\(format {FORMAT + 1}; this version reads formats up to {FORMAT}\)"
        ):
            await play(runner_on(store, folder, WAITING).resume(WAITING, {"size": "7"}))
        threads = {checkpoint_key(entry.config).thread async for entry in store.saver.alist(None)}
        assert len(threads) == len([*folder.glob("fixture-*.json")]) - 1
        assert await play(runner_on(store, folder, LONG).start(LONG, {"query": "one more"})) == "one more"
