"""What users and models have written is encrypted in the database."""

from typing import Any

import pytest
from sqlalchemy import text

from ragflow_lg.base.errors import RequestError
from ragflow_lg.checkpoints.key_ring import make_key_ring
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.server.database.session_repository import RunRepository, SessionQuery, SessionRepository
from ragflow_lg.server.database.tables import MessageRow, RunRow, SessionRow
from ragflow_lg.server.database.turn_writer import ClosedRow, write_turn
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.encryption import EncryptionKey

OLD, NEW = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
SECRET = "correct-horse"


async def fill(database: Database) -> None:
    """Store a session with a first message, a turn that failed and a run that has asked something."""
    sessions, runs = SessionRepository(database, "us"), RunRepository(database, "us")
    row = SessionRow(id="0" * 32, agent_id="a", version_id="v", create_ms=1, update_ms=1)
    first = MessageRow(session_id="0" * 32, number=0, role="assistant", content=f"{SECRET} 0", create_ms=1)
    await sessions.add(row, first)
    for id_ in ("r1", "r2"):
        await runs.add(RunRow(id=id_, agent_id="a", version_id="v", session_id="0" * 32, asked=SECRET, start_ms=2))
    turn = ClosedRow("r1", "0" * 32, "failed", SECRET, Usage(), 2, 3, f"!what! {SECRET}", f"{SECRET}\x00ü", SECRET)
    await write_turn(database, "us", turn)


async def stored(database: Database) -> str:
    """Return all texts as the database has them."""
    tables = ("sessions", "messages", "runs")
    async with database.reading() as db:
        return str([list(await db.execute(text(f"SELECT * FROM {table}"))) for table in tables])


async def contents(database: Database) -> list[Any]:
    messages = await SessionRepository(database, "us").messages(["0" * 32])
    runs, _ = await RunRepository(database, "us").find("a", "", 1, 9)
    return [[(row.role, row.content, row.reference) for row in messages["0" * 32]], [run.error for run in runs]]


async def test_texts_are_encrypted_and_read_again(database_url: str) -> None:
    async with open_database(database_url, make_key_ring([OLD])) as database:
        await fill(database)
        before = await contents(database)
        assert before == [
            [
                ("assistant", f"{SECRET} 0", ""),
                ("user", f"!what! {SECRET}", ""),
                ("user", SECRET, ""),  # of the run that has not ended
                ("assistant", f"{SECRET}ü", SECRET),
            ],
            ["", SECRET],
        ]
        raw = await stored(database)
        assert SECRET not in raw
        assert "!old!" in raw
        session = await SessionRepository(database, "us").get("0" * 32)
        assert session is not None
        assert session.errors == SECRET
        with pytest.raises(RequestError, match="cannot be searched"):
            await SessionRepository(database, "us").find("a", SessionQuery(keywords="horse"))
    for keys in ([], [NEW], [EncryptionKey("old", b"?" * 32)]):
        async with open_database(database_url, make_key_ring(keys)) as database:
            messages, _ = await contents(database)
            assert all("'old'" in content for _, content, _ in messages)  # the list itself can be shown


async def test_texts_of_older_keys_and_plain_ones_are_read(database_url: str) -> None:
    async with open_database(database_url) as database:
        await fill(database)
        before = await contents(database)
    async with open_database(database_url, make_key_ring([OLD])) as database:
        assert await contents(database) == before
        turn = ClosedRow("r2", "0" * 32, "done", "", Usage(), 4, 5, SECRET, SECRET)
        await write_turn(database, "us", turn)
        before = await contents(database)
    async with open_database(database_url, make_key_ring([NEW, OLD])) as database:
        assert await contents(database) == before
