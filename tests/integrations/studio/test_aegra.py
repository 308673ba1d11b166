"""Tests of a real Aegra with PostgreSQL and Redis: it runs the files of ``ragflow-lg studio`` unchanged."""

from pathlib import Path
from urllib.parse import quote

import pytest
from langgraph_sdk import get_client

from tests.fakes.databases import new_database
from tests.harness.aegra import PACKAGES, aegra_server
from tests.harness.database_servers import free_port
from tests.integrations.studio.langgraph_checks import Api, check_api, check_origins, make_folder
from tests.server.cli.command import invoke

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not PACKAGES.is_dir(), reason="Aegra is missing: run make services")
async def test_sessions_of_aegra(tmp_path: Path, redis_url: str) -> None:
    folder, log = make_folder(tmp_path), tmp_path / "aegra.log"
    written = invoke("studio", folder, "--no-server", "--model", "demo")
    assert written.exit_code == 0, written.stderr
    with new_database("postgres", tmp_path) as account:
        login = f"{account.username}:{quote(account.password, safe='')}"
        url = f"postgresql://{login}@{account.host}:{account.port}/{account.database}"
        with aegra_server(folder, free_port(), url, redis_url, log) as server:
            lacks = {"returns_all_pauses": False, "runs_without_input": False, "copies_threads": False}
            await check_origins(server)
            await check_api(Api(get_client(url=server), refusal="400 Bad Request", **lacks), folder)
    assert "BlockingError" not in log.read_text("utf-8", "replace")
    assert not list(folder.glob("*.db")), "the sessions are in PostgreSQL"
