import json
import sqlite3
from pathlib import Path

from ragflow_lg.base.errors import RequestError
from tests.server.cli.command import invoke


def test_keys_are_created_listed_and_revoked(tmp_path: Path) -> None:
    environment = {"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}/server.db"}

    def keys(*arguments: str) -> list[str]:
        result = invoke("keys", *arguments, environment=environment)
        assert result.exit_code == 0, result
        return result.stdout.splitlines()

    file = tmp_path / "server.db"
    for arguments, code in ((("list",), 0), (("revoke", "web shop"), 1)):
        missing = invoke("keys", *arguments, environment=environment)
        assert (missing.exit_code, missing.stdout, file.exists()) == (code, "", False)
        assert f"The database {file} does not exist;" in (missing.stderr or str(missing.exception))
    creation = invoke("keys", "create", "desk", environment=environment)
    assert creation.stderr == f"Created a new database: {file}\n"
    assert keys("revoke", "desk") == [f"revoked {creation.stdout[:16]}…"]
    with sqlite3.connect(file) as raw:
        raw.execute("DELETE FROM api_keys")
    empty = invoke("keys", "list", environment=environment)
    assert (empty.stdout, empty.stderr.startswith(f"There are no keys in {file};")) == ("", True)

    (key,) = keys("create", "web shop", "--tenant", "shop", "--compat", "0.24")
    (beta,) = keys("create", "--beta", "--all-agents")
    assert (key.startswith("ragflow-"), beta.startswith("beta-")) == (True, True)
    lines = keys("list")
    assert [line.split()[:3] for line in lines] == [
        [f"{key[:16]}…", "api", "valid"],
        [f"{beta[:16]}…", "beta", "valid"],
    ]
    assert "shop  web shop" in lines[0]
    assert keys("revoke", key[:16]) == [f"revoked {key[:16]}…"]
    assert "revoked" in keys("list")[0]
    again = invoke("keys", "revoke", key, environment=environment)
    assert isinstance(again.exception, RequestError)
    assert invoke("keys", "revoke", environment=environment).exit_code == 2


def test_created_and_revoked_keys_are_in_the_audit_log(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    environment = {
        "RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}/server.db",
        "RAGFLOW_LG_SERVER__AUDIT": str(audit),
    }
    key = invoke("keys", "create", "shop", "--tenant", "acme", environment=environment).stdout.strip()
    invoke("keys", "revoke", key, environment=environment)
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["event"], line["tenant"], line["name"]) for line in lines] == [
        ("key.created", "acme", "shop"),
        ("key.revoked", "acme", "shop"),
    ]
    assert key[:16] not in audit.read_text()


def test_keys_show_their_agents_and_when_they_expire(tmp_path: Path) -> None:
    file = tmp_path / "server.db"
    environment = {"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{file}"}
    invoke("keys", "create", "window", "--beta", "--all-agents", "--expires", "30", environment=environment)
    with sqlite3.connect(file) as raw:
        (lifetime_ms,) = raw.execute("SELECT expire_ms - create_ms FROM api_keys").fetchone()
        assert lifetime_ms == 30 * 86_400_000
        raw.execute("UPDATE api_keys SET agents = 'one,two'")
    (line,) = invoke("keys", "list", environment=environment).stdout.splitlines()
    assert ("  valid  " in line, "  expires " in line, line.endswith("  agents one,two")) == (True, True, True)
    with sqlite3.connect(file) as raw:
        raw.execute("UPDATE api_keys SET expire_ms = 1")
    assert "  expired  " in invoke("keys", "list", environment=environment).stdout
    unknown = invoke("keys", "create", "--beta", "--agent", "nothing", environment=environment)
    assert "has no agent with the id or the title 'nothing'. It has no agents." in str(unknown.exception)
    for options in (
        ("--agent", "one"),
        ("--all-agents",),
        ("--beta",),
        ("--beta", "--all-agents", "--agent", "one"),
        ("--beta", "--all-agents", "--expires", "0"),
        ("--expires", "nan"),
    ):
        assert invoke("keys", "create", *options, environment=environment).exit_code == 2
