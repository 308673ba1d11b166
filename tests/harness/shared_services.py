"""What servers that take over runs from each other share: Redis, PostgreSQL and a mock model server."""

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from ragflow_lg.integrations.mock_model.mock_llm_app import Exchange, mock_app, start_mock_server
from ragflow_lg.integrations.mock_model.rules import Rules
from ragflow_lg.server.http.edge.uvicorn_server import open_socket
from tests.harness.database_servers import NotInstalledError
from tests.harness.database_servers import server as database_server
from tests.harness.redis_server import redis_server
from tests.stores import fresh_prefix

SETTINGS = """
checkpoints = "{redis_url}"
checkpoint_prefix = "{prefix}"
[providers.Mock]
base_url = "{model_url}"
[http]
allow = ["127.0.0.1"]
[server]
database = "{database_url}"
"""


async def start_shared_services(
    stack: AsyncExitStack,
    folder: Path,
    rules: Rules,
    record: Callable[[Exchange], None] = lambda exchange: None,
    more_settings: str = "",
    database: str = "postgresql",
) -> tuple[Path, str, str]:
    """Start the services; return the settings of the servers, and the URL and the key prefix of Redis.

    Without the kind of ``database`` on this machine, the servers share an SQLite file. In ``more_settings``,
    ``{redis_url}`` stands for the URL of Redis.
    """
    mock = start_mock_server(mock_app(rules, record), open_socket("127.0.0.1", 0))
    model_url = await stack.enter_async_context(mock)
    database_url = f"sqlite:///{folder}/server.db"
    if database != "sqlite":
        with suppress(NotInstalledError):
            database_url = stack.enter_context(database_server(database))
    redis_url, prefix, settings = stack.enter_context(redis_server()), fresh_prefix(), folder / "settings.toml"
    places = {"redis_url": redis_url, "prefix": prefix, "model_url": model_url, "database_url": database_url}
    settings.write_text((SETTINGS + more_settings).format(**places))
    return settings, redis_url, prefix
