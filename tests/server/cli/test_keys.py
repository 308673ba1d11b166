import asyncio
import json
import sqlite3
import stat
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.cli.serve import hand_over
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import open_database
from tests.harness.first_key import read_first_key
from tests.harness.rows import each_row
from tests.server.cli.command import invoke, one_line
from tests.server.database.rows import agent, version


def keys(*arguments: str) -> list[str]:
    result = invoke("keys", *arguments)
    assert result.exit_code == 0, result
    return result.stdout.splitlines()


def test_keys_are_created_listed_and_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit, file = tmp_path / "audit.jsonl", tmp_path / "ragflow-lg-server.db"
    monkeypatch.setenv("RAGFLOW_LG_SERVER__AUDIT", str(audit))
    for arguments, code in ((("list",), 0), (("revoke", "web shop"), 1)):
        missing = invoke("keys", *arguments)
        assert (missing.exit_code, missing.stdout, file.exists()) == (code, "", False)
        assert f"The database {file} does not exist;" in (missing.stderr or str(missing.exception))
    creation = invoke("keys", "create", "desk")
    assert creation.stderr == f"Created a new database: {file}\n"
    assert keys("revoke", "desk") == [f"revoked {creation.stdout[:16]}…"]
    with sqlite3.connect(file) as raw:
        raw.execute("DELETE FROM api_keys")
    empty = invoke("keys", "list")
    assert (empty.stdout, empty.stderr.startswith(f"There are no keys in {file};")) == ("", True)

    (key,) = keys("create", "web shop", "--tenant", "shop", "--compat", "v0.22.1")
    (beta,) = keys("create", "page", "--beta", "--all-agents")
    assert (key.startswith("ragflow-"), beta.startswith("beta-")) == (True, True)
    lines = keys("list")
    assert [line.split()[:3] for line in lines] == [
        [f"{key[:16]}…", "api", "valid"],
        [f"{beta[:16]}…", "beta", "valid"],
    ]
    assert "shop  web shop  compat 0.24" in lines[0]
    assert invoke("keys", "create", "x", "--compat", "2.0").exit_code == 2
    assert keys("revoke", key[:16]) == [f"revoked {key[:16]}…"]
    assert "revoked" in keys("list")[0]
    assert isinstance(invoke("keys", "revoke", key).exception, RequestError)
    assert invoke("keys", "revoke").exit_code == 2
    events = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(event["event"], event["tenant"]) for event in events if event.get("name") == "web shop"] == [
        ("key.created", "shop"),
        ("key.revoked", "shop"),
    ]
    assert key[:16] not in audit.read_text()


def test_keys_show_their_agents_and_when_they_expire() -> None:
    keys("create", "window", "--beta", "--all-agents", "--expires", "30")
    with sqlite3.connect("ragflow-lg-server.db") as raw:
        (lifetime_ms,) = raw.execute("SELECT expire_ms - create_ms FROM api_keys").fetchone()
        assert lifetime_ms == 30 * 86_400_000
        raw.execute("UPDATE api_keys SET agents = 'one,two'")
    (line,) = keys("list")
    assert ("  valid  " in line, "  expires " in line, line.endswith("  agents one,two")) == (True, True, True)
    with sqlite3.connect("ragflow-lg-server.db") as raw:
        raw.execute("UPDATE api_keys SET expire_ms = 1")
    assert "  expired  " in keys("list")[0]
    unknown = invoke("keys", "create", "page", "--beta", "--agent", "nothing")
    assert "has no agent with the id or the title 'nothing'. It has no agents." in str(unknown.exception)


@each_row(
    "options",
    ["--agent one", "--all-agents", "--beta", "--beta --all-agents --agent one", "--beta --all-agents --expires 0",
     "--expires nan"],
)  # fmt: skip
def test_options_of_keys_that_do_not_go_together_are_refused(options: str) -> None:
    assert invoke("keys", "create", "page", *options.split()).exit_code == 2


def test_a_key_needs_a_name() -> None:
    result = invoke("keys", "create")
    assert (result.exit_code, "Enter what the key is for" in one_line(result.stderr)) == (2, True)


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
            await AgentRepository(database, "default").create(agent(), version())

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


def test_a_terminal_shows_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert hand_over("ragflow-1", tmp_path / "key") == "API key (shown only once): ragflow-1"
    assert not (tmp_path / "key").exists()


def test_elsewhere_a_private_file_contains_it(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("the key of an earlier database")
    file.chmod(0o644)
    line = hand_over("ragflow-1", file)
    assert "ragflow-1" not in line
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_first_key(line) == "ragflow-1"
    assert "ragflow-lg keys create" in hand_over("ragflow-1", tmp_path / "missing" / "key")
