import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.run_records import hex_session
from ragflow_lg.checkpoints.sqlite.sqlite_cancels import SqliteCancels
from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite


async def test_one_look_serves_all_who_watch(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file, AsyncExitStack() as watching:
        cancels, asked, told = SqliteCancels(file), list[str](), list[int]()
        rows = cancels._rows  # pyright: ignore[reportPrivateUsage]

        async def counted(query: str, values: Sequence[Any] = ()) -> list[Any]:
            asked.append(query.split()[0])
            return await rows(query, values)

        cancels._rows = counted  # pyright: ignore[reportPrivateUsage]
        for number in range(50):
            await watching.enter_async_context(cancels.watch(f"s{number}", lambda number=number: told.append(number)))
        await rows("INSERT INTO cancels VALUES (?), (?)", (hex_session("s3"), hex_session("nobody")))
        async with asyncio.timeout(5):
            while not told:
                await asyncio.sleep(0.01)
        assert told == [3]
        assert asked.count("SELECT") < 10
        await cancels.request("s5")
        assert told == [3, 5]  # within the process it needs no look


async def test_a_store_that_fails_is_told(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        cancels = SqliteCancels(file)
        await file.rows("DROP TABLE cancels")
        with pytest.raises(CheckpointError, match="no such table"):
            await cancels.request("anna")
        with pytest.raises(CheckpointError, match="no such table"):
            async with cancels.watch("anna", lambda: None):
                pass
