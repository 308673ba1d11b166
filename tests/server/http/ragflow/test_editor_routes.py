from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from ragflow_lg.server.settings.sections import HttpSection
from tests.server.conftest import require_database_server
from tests.server.http.app_server import start_app

PATH = "/agents/test_db_connection"
FIELDS: dict[str, Any] = {
    "db_type": "postgres",
    "database": "shop",
    "username": "reader",
    "host": "127.0.0.1",
    "port": "5432",
    "password": "secret",
}


async def test_missing_fields_are_named_as_ragflow_does(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        for path, body, missing in (
            (PATH, {"db_type": "mysql"}, "database,username,host,port,password"),
            ("/agents/rerun", {"id": "flow-1"}, "dsl,component_id"),
        ):
            answer = await server.client.post(path, json=body)
            expected = {"code": 101, "message": f"required argument are missing: {missing}; ", "data": None}
            assert (answer.status_code, answer.json()) == (200, expected)
        rerun = await server.client.post("/agents/rerun", json={"id": "x", "dsl": {}, "component_id": "Parser:0"})
        assert rerun.json()["code"] == 102
        assert "run ingestion pipelines with RAGFlow" in rerun.json()["message"]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({}, 100, "address is not on the public internet"),
        ({"host": "no-such-host.invalid"}, 100, "cannot be resolved"),
        ({"db_type": "IBM DB2"}, 100, "ibm db2 needs the package ibm-db-sa"),
        ({"db_type": "oracle"}, 100, "There is no database type 'oracle'"),
        ({"db_type": "sqlite"}, 100, "A canvas cannot name a sqlite file"),
        ({"password": None}, 100, "address is not on the public internet"),
        ({"port": "http"}, 101, "`port` must be a number"),
        ({"port": 70000}, 101, "`port` must be a number"),
    ],
)
async def test_what_cannot_be_tested_is_refused(
    tmp_path: Path, change: dict[str, Any], code: int, message: str
) -> None:
    async with start_app(tmp_path) as server:
        answer = await server.client.post(PATH, json=FIELDS | change)
        assert (answer.status_code, answer.json()["code"]) == (200, code)
        assert message in answer.json()["message"]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "db_type"), [("postgresql", "postgres"), ("mariadb", "mariadb")])
async def test_a_real_database_is_reached(tmp_path: Path, kind: str, db_type: str) -> None:
    url = make_url(require_database_server(kind))
    fields = {
        "db_type": db_type,
        "database": url.database or ("postgres" if kind == "postgresql" else "mysql"),
        "username": url.username,
        "host": url.host,
        "port": url.port,
        "password": url.password or "",
    }
    async with start_app(tmp_path, http=HttpSection(allow=("127.0.0.1",))) as server:
        answer = (await server.client.post(PATH, json=fields)).json()
        assert answer == {"code": 0, "message": "success", "data": "Database Connection Successful!"}
        wrong = (await server.client.post(PATH, json=fields | {"database": "no_such_database"})).json()
        assert wrong["code"] == 100
        assert "no_such_database" in wrong["message"]
