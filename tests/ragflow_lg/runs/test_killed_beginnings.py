"""Processes that are killed while they store the beginning of a run: either all of it is stored, or nothing."""

import asyncio
import os
import signal
import traceback
from typing import Any

import pytest
from redis.asyncio.connection import AbstractConnection

from ragflow_lg.checkpoints import Store
from ragflow_lg.checkpoints.sql.sql_tables import SqlTables
from ragflow_lg.runs.runner import newest_run
from tests.fakes.regions import form, loop, out, play_run, runner_of
from tests.stores import OpenStore, sqlite_file

pytestmark = pytest.mark.slow

CANVAS = {"ask": form("word", downstream=["out"]), **out("{sys.query} {ask@word}")}
IN_LOOP = {**loop({"ask": form("word")}, count=2), **out("{sys.query} {ask@word}")}


def _kill_at(store: Store, number: int) -> None:
    """Kill this process at a statement of SQLite, or before or after a script is sent to Redis."""
    count = 0

    def reach(_: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    if isinstance(store.saver.tables, SqlTables):
        sqlite_file(store).connection.set_trace_callback(reach)
        return
    send: Any = AbstractConnection.send_packed_command  # pyright: ignore[reportUnknownMemberType] - redis-py

    async def send_and_reach(self: Any, command: Any, *more: Any, **options: Any) -> None:
        is_script = b"EVAL" in b"".join([command] if isinstance(command, bytes) else command)[:40]
        if is_script:
            reach("")
        await send(self, command, *more, **options)
        if is_script:
            await asyncio.sleep(0.01)
            reach("")

    AbstractConnection.send_packed_command = send_and_reach  # type: ignore[method-assign] - in a forked process


async def _play(reopen: OpenStore, intent: str, kill_at: int = 0, canvas: Any = CANVAS) -> str:
    """Start or continue a session or answer its form, and return the status of the run."""
    async with reopen() as store:
        runner = runner_of(canvas, store=store)
        run = {
            "start": lambda: runner.start("s", {"query": "hello"}),
            "continue": lambda: runner.continue_("s"),
            "resume": lambda: runner.resume("s", {"word": "you"}),
        }[intent]()
        if kill_at:
            _kill_at(store, kill_at)
        await play_run(run)
        return run.status


def _play_and_die(reopen: OpenStore, intent: str, kill_at: int, canvas: Any = CANVAS) -> None:
    """Do so in a process that is killed on the way."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(_play(reopen, intent, kill_at, canvas))
        except BaseException:  # noqa: BLE001 - a forked process must not return into the test
            traceback.print_exc()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, kill_at


async def _newest_status(reopen: OpenStore) -> str:
    async with reopen() as store:
        newest = await newest_run(store, "s")
        return newest.status if newest is not None else ""


@pytest.mark.parametrize(("intent", "end"), [("start", "waiting"), ("resume", "succeeded")])
def test_a_run_that_is_recorded_can_be_continued(intent: str, end: str, reopen_shared: OpenStore) -> None:
    reopen, after = reopen_shared, ""
    for kill_at in range(1, 30, 2):
        if intent == "resume":
            asyncio.run(_play(reopen, "start"))
        before = asyncio.run(_newest_status(reopen))
        _play_and_die(reopen, intent, kill_at)
        after = asyncio.run(_newest_status(reopen))
        again = "continue" if after == "running" else intent
        assert after in ("running", before), kill_at
        assert asyncio.run(_play(reopen, again)) == end, kill_at
        asyncio.run(_delete(reopen))
        if after == "running":
            assert kill_at > 1
            return
    raise AssertionError("the beginning was never stored")


def test_each_answer_of_a_loop_that_is_recorded_can_be_continued(reopen_shared: OpenStore) -> None:
    """The steps around the Loop stay the same meanwhile, and so does the place of the answers."""
    reopen = reopen_shared
    for kill_at in range(1, 30, 2):
        for intent in ("start", "resume"):
            assert asyncio.run(_play(reopen, intent, canvas=IN_LOOP)) == "waiting"
        _play_and_die(reopen, "resume", kill_at, IN_LOOP)
        is_recorded = asyncio.run(_newest_status(reopen)) == "running"
        again = "continue" if is_recorded else "resume"
        assert asyncio.run(_play(reopen, again, canvas=IN_LOOP)) == "succeeded", kill_at
        asyncio.run(_delete(reopen))
        if is_recorded:
            return
    raise AssertionError("the answer was never stored")


async def _delete(reopen: OpenStore) -> None:
    async with reopen() as store:
        await store.delete_session("s")
