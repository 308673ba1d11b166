import sqlite3
from pathlib import Path

from ragflow_lg.server.assembly.server_probe import probe_server
from ragflow_lg.server.settings import Settings


async def test_the_database_and_the_queue_of_servers_are_opened(redis_url: str, tmp_path: Path) -> None:
    def settings(database: str, queue: str) -> Settings:
        return Settings.model_validate({"server": {"database": database}, "queue": {"url": queue}})

    file = tmp_path / "server.db"
    (answers,) = await probe_server(settings(f"sqlite:///{file}", redis_url))
    assert (answers.is_well, answers.what) == (True, f"the queue of runs at {redis_url} answers (0 wait, 0 are played)")
    assert not file.exists()
    sqlite3.connect(file).close()
    (answers,) = await probe_server(settings(f"sqlite:///{file}", ""))
    assert (answers.is_well, answers.what) == (True, f"the server's database 'sqlite:///{file}' answers")
    database, queue = await probe_server(
        settings("postgresql://u:secret@127.0.0.1:1/x", "redis://u:secret@127.0.0.1:1")
    )
    assert (database.is_well, database.what) == (False, "the server's database cannot be used")
    assert database.advice.startswith("The database 'postgresql://u:***@127.0.0.1:1/x' cannot be used: ")
    assert database.advice.endswith("Start the database, or correct `database` of [server].")
    assert (queue.is_well, queue.what) == (False, "the queue of runs cannot be used")
    assert queue.advice == (
        "The queue of runs at redis://127.0.0.1:1 does not answer: its Redis server cannot be reached. "
        "Start that server, or correct --queue or `url` of [queue]."
    )
