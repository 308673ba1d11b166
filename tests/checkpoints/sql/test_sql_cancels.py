import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from ragflow_lg.checkpoints.sql.sql_records import SqlCancels
from ragflow_lg.checkpoints.sql.sqlite_file import open_sqlite


async def test_one_poll_serves_all_watchers(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file, AsyncExitStack() as watches:
        cancels, statements, cancellations = SqlCancels(file), list[str](), list[int]()
        await file.do(lambda: file.connection.set_trace_callback(statements.append))
        for number in range(50):
            await watches.enter_async_context(cancels.watch(f"s{number}", lambda n=number: cancellations.append(n)))
        other = SqlCancels(file)
        for session in ("s3", "nobody"):
            await other.request(session)
        async with asyncio.timeout(60):
            while not cancellations:
                await asyncio.sleep(0.01)
        assert cancellations == [3]
        assert 0 < sum(statement.startswith("SELECT") for statement in statements) < 10
        await cancels.request("s5")
        assert cancellations == [3, 5]  # within the process without a poll


async def test_a_flag_remains_at_the_end_which_writes_nothing(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        cancels, statements = SqlCancels(file), list[str]()
        await file.do(lambda: file.connection.set_trace_callback(statements.append))
        async with cancels.watch("s1", lambda: None):
            statements.clear()
        assert statements == []
        async with cancels.watch("s1", lambda: None):
            await cancels.request("s1")
            statements.clear()
        assert statements == []
        assert await cancels.is_requested("s1"), "until the session is leased again"
        assert not await cancels.is_requested("s2")
