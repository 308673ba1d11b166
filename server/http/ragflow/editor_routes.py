"""RAGFlow's routes for buttons of its editor: test a database connection, rerun an ingestion pipeline."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.adapters.sql.configured_databases import ConfiguredDatabases
from ragflow_lg.adapters.sql.sql_settings import SqlSettings
from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state
from ragflow_lg.server.http.shared.described_routes import DescribedRoute, describe
from ragflow_lg.server.http.shared.request_parsing import read_body, require_fields, to_text
from ragflow_lg.server.http.shared.route_schemas import LazyModel, with_examples
from ragflow_lg.services.databases import DatabaseAccount

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: agents"], route_class=DescribedRoute)

_FAILED = 100
_ANSWER_S = 5.0
"""How long a tested database may take to answer, in addition to the time for the connection."""
_DATABASE_FIELDS = ("db_type", "database", "username", "host", "port", "password")


class DatabaseBody(LazyModel):
    """A database whose connection is tested."""

    model_config = with_examples(
        {
            "db_type": "postgres",
            "database": "shop",
            "username": "reader",
            "host": "db.example.org",
            "port": 5432,
            "password": "secret",
        }
    )

    db_type: Annotated[str, Field(description="`db_type` of ExeSQL, such as `mysql` or `postgres`.")]
    database: str
    username: str
    host: str
    port: int | str
    password: str


class RerunBody(LazyModel):
    """A pipeline to rerun; always refused."""

    model_config = with_examples({"id": "5f0c9a64d4e211f0", "dsl": {}, "component_id": "Parser:0"})

    id: str
    dsl: dict[str, Any]
    component_id: str


@router.post("/agents/test_db_connection")
@describe(body=DatabaseBody)
async def test_database(request: Request, caller: Authenticated) -> str:
    """Test the connection to a database."""
    fields = await read_body(request)
    require_fields(fields, *_DATABASE_FIELDS)
    texts = {name: to_text(fields[name]) for name in _DATABASE_FIELDS}
    account = DatabaseAccount(
        texts["db_type"],
        texts["host"].strip(),
        _read_port(fields["port"]),
        texts["database"],
        texts["username"],
        texts["password"],
    )
    guard = AddressGuard(get_app_state(request).settings_of(caller.tenant).http.allow)
    databases = ConfiguredDatabases(SqlSettings(timeout_s=_ANSWER_S), guard)
    try:
        await databases.check(account)
    except (ServiceError, SettingsError) as error:
        raise RequestError(str(error), _FAILED, status=200) from error
    finally:
        await databases.aclose()
    return "Database Connection Successful!"


@router.post("/agents/rerun")
@describe(body=RerunBody)
async def rerun_pipeline(request: Request, caller: Authenticated) -> Literal[True]:
    """Refuse to rerun an ingestion pipeline: ragflow-lg runs agents only."""
    require_fields(await read_body(request, "canvas"), "id", "dsl", "component_id")
    raise RequestError("Document not found. ragflow-lg runs agents; run ingestion pipelines with RAGFlow.", status=404)


def _read_port(value: Any) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536):
        raise RequestError("`port` must be a number from 1 to 65535.", 101)
    return int(text)
