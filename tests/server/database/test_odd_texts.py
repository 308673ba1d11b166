"""Texts that PostgreSQL refuses unless they are changed: NUL and unpaired surrogates."""

from sqlalchemy import String, Text

from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.database.database import Database
from ragflow_lg.server.database.file_repository import FileRepository
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionQuery, SessionRepository
from ragflow_lg.server.database.tables import FileRow, LineText, Row, RunRow
from ragflow_lg.server.database.turn_writer import ClosedRow, write_turn
from ragflow_lg.server.database.webhook_repository import WebhookRepository, WebhookTests, find_agent
from ragflow_lg.services.chat import Usage
from tests.server.database.rows import agent, message, session, version

ODD = "a\x00b\ud83d\ude00\ud83d"
STORED = "ab😀\ufffd"
LINE = "a\ufffdb😀\ufffd"


async def test_odd_texts_of_models_and_clients_are_stored(database: Database) -> None:
    agents, sessions = AgentRepository(database, "t"), SessionRepository(database, "t")
    await agents.create(agent(title=ODD, title_key=ODD, description=ODD, tags=ODD), version(dsl='"\x00"', title=ODD))
    await sessions.add(session(name=ODD, user_id=ODD), message("s1", ODD))
    runs = RunRepository(database, "t")
    await runs.add(RunRow(id="r1", agent_id="a1", version_id="v1", session_id="s1", start_ms=1))
    await write_turn(database, "t", ClosedRow("r1", "s1", "failed", ODD, Usage(), 1, 2, ODD, ODD, ODD))
    await FileRepository(database, "t").add(FileRow(id="f1", name=ODD, mime_type=ODD, create_ms=1))
    await WebhookTests(database, "t", "a1").begin("w1", 1)
    await WebhookTests(database, "t", "a1").add_events("w1", [(2, ODD)])
    await KeyRepository(database).create("t", 1, name=ODD)
    messages = (await sessions.messages(["s1"]))["s1"]
    run, stored = await runs.get("r1"), await sessions.get("s1")
    file = await FileRepository(database, "t").get("f1")
    assert run is not None
    assert stored is not None
    assert file is not None
    assert [row.content for row in messages] == [STORED] * 3
    assert (run.error, stored.errors, stored.name, file.name) == (STORED, STORED, STORED, LINE)
    (event,) = await WebhookTests(database, "t", "a1").events("w1", 0, 10)
    assert event.event == STORED


async def test_lookups_by_odd_texts_find_nothing(database: Database) -> None:
    agents, sessions = AgentRepository(database, "t"), SessionRepository(database, "t")
    await agents.create(agent(), version())
    await sessions.add(session(), message("s1", "hello"))
    for odd in ("a1\x00", "a1 \ud83d"):
        assert await agents.get(odd) is None
        assert await agents.version(odd, odd) is None
        assert await find_agent(database, odd) is None
        assert (await agents.find(AgentQuery(id=odd, title=odd, keywords=odd)))[1] == 0
        assert (await sessions.find("a1", SessionQuery(user_id=odd, keywords=odd)))[1] == 0
        await sessions.delete("a1", odd)
        assert await RunRepository(database, "t").get(odd) is None
        assert await WebhookTests(database, "t", odd).get(odd) is None
        assert await WebhookRepository(database, "t", odd[:32]).take(1, 1, 1) == 0.0
        assert await KeyRepository(database).find(odd, 2) is None
    assert await sessions.get("s1") is not None


def test_every_text_column_accepts_any_text() -> None:
    columns = [column for table in Row.metadata.sorted_tables for column in table.columns]
    bare = [str(column) for column in columns if isinstance(column.type, String | Text)]
    assert bare == []
    assert sum(isinstance(column.type, LineText) for column in columns) > 40
