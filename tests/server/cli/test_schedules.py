import asyncio
import json
from pathlib import Path

from typer.testing import Result

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import open_database
from tests.server.cli.command import invoke
from tests.server.database.rows import agent, version


def test_schedules_are_added_listed_and_deleted(tmp_path: Path) -> None:
    url, audit = f"sqlite:///{tmp_path}/server.db", tmp_path / "audit.jsonl"
    environment = {"RAGFLOW_LG_SERVER__DATABASE": url, "RAGFLOW_LG_SERVER__AUDIT": str(audit)}

    def schedules(*arguments: str, **more: str) -> Result:
        return invoke("schedules", *arguments, environment=environment | more)

    missing = schedules("list")
    assert isinstance(missing.exception, RequestError)
    assert not (tmp_path / "server.db").exists()

    async def add_agent() -> None:
        async with open_database(url) as database:
            await AgentRepository(database, "default").add(agent(), version())

    asyncio.run(add_agent())
    assert schedules("list").stderr.startswith("The tenant 'default' has no schedules;")
    added = schedules("add", "a1", "0 9 * * MON", "--time-zone", "Europe/Berlin", "--query", "News?")
    assert added.exit_code == 0, added
    id_ = added.stdout.strip()
    assert added.stderr.startswith("Next: Mon ")
    assert added.stderr.count(" 09:00 +0") == 3
    listed = schedules("list").stdout
    assert listed.startswith(f"{id_}  agent a1  0 9 * * MON  Europe/Berlin  next: Mon ")
    assert schedules("list", "--tenant", "other").stdout == ""
    for arguments in (("add", "a2", "0 9 * * *"), ("add", "a1", "nine"), ("delete", id_, "--tenant", "other")):
        assert isinstance(schedules(*arguments).exception, RequestError)
    by_title = schedules("add", "Helper", "0 9 * * *").stdout.strip()
    assert schedules("delete", by_title).stdout == f"deleted {by_title}\n"
    unknown = schedules("add", "Helpr", "0 9 * * *")
    assert "has no agent with the id or the title 'Helpr'. Its agents: a1 ('Helper')." in str(unknown.exception)
    assert schedules("delete", id_).stdout == f"deleted {id_}\n"
    assert isinstance(schedules("delete", id_).exception, RequestError)
    events = [json.loads(line)["event"] for line in audit.read_text().splitlines()]
    assert events == ["schedule.created", "schedule.created", "schedule.deleted", "schedule.deleted"]
