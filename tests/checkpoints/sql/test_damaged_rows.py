"""Changed bytes in a file are reported: they never give another state, or a traceback."""

import random
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import RagflowLgError, SessionFormatError
from ragflow_lg.checkpoints import Store, open_store
from tests.fakes.canvas import text
from tests.fakes.regions import form, loop, out, play_run, runner_of
from tests.stores import sqlite_file

CANVAS = {**loop({"x": text(["ask"], "some text " * 400), "ask": form("f")}, count=2), **out("{x@result}")}
TABLES = ("session_checkpoints", "session_writes", "session_blobs")
COLUMNS = {
    "session_checkpoints": ("checkpoint", "metadata"),
    "session_writes": ("value",),
    "session_blobs": ("content",),
}


async def read_all(store: Store) -> Any:
    runner = runner_of(CANVAS, first=["lp"], store=store)
    state = await runner.state("s")
    pauses = [(pause.id, pause.node) for pause in await runner.pauses("s")]
    history = [(step.checkpoint, step.region, step.next) async for step in runner.history("s")]
    return state, pauses, history


@pytest.mark.parametrize("seed", range(3))
async def test_a_changed_byte_is_reported(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    silent: list[str] = []
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        await play_run(runner_of(CANVAS, first=["lp"], store=store).start("s", {"query": "q"}))
        expected = await read_all(store)
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        file = sqlite_file(store)
        for table in TABLES:
            for column in COLUMNS[table]:
                for key, value in await file.read(f"SELECT rowid, CAST({column} AS BLOB) FROM {table}"):
                    changed = bytearray(value)
                    if not changed:
                        continue
                    at = draw.randrange(len(changed))
                    changed[at] ^= 1 << draw.randrange(7)
                    await file.read(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (bytes(changed), key))
                    try:
                        if await read_all(store) != expected:
                            silent.append(f"{table}.{column} {at}: {bytes(value)!r}"[:300])
                    except RagflowLgError:
                        pass
                    await file.read(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, key))
        assert await read_all(store) == expected
    assert silent == []


async def test_a_session_of_another_format_is_refused_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        runner = runner_of(CANVAS, first=["lp"], store=store)
        with monkeypatch.context() as patch:
            patch.setattr("ragflow_lg.checkpoints.steps.saver.FORMAT", 99)
            await play_run(runner.start("other", {"query": "q"}))
        await play_run(runner.start("s", {"query": "q"}))
        with pytest.raises(SessionFormatError, match=r"Another version .* \(format 99; this version reads format 1\)"):
            await runner.state("other")
        await read_all(store)
