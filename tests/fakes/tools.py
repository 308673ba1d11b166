"""Running tools over scripted answers, or over a server on 127.0.0.1 with the real, guarded client."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.component.spec import AnySpec
from ragflow_lg.services.http import HttpResponse
from ragflow_lg.services.services import Services
from ragflow_lg.services.tool_policies import ToolSettings
from tests.fakes.http_server import HttpServer, Received, Route
from tests.fakes.run import Result, run_component
from tests.fakes.services import ScriptedHttp, fake_services


@asynccontextmanager
async def local_service(
    *routes: Route, service: str, key: str = "", is_allowed: bool = True
) -> AsyncGenerator[tuple[HttpServer, Services]]:
    """Serve the routes of a service; yield the server and services that are configured to use it."""
    async with HttpServer(routes).running() as server:
        address = f"127.0.0.1:{server.port}"
        http = GuardedHttpClient(HttpSettings(allow=(address,) if is_allowed else ()))
        tools = ToolSettings({service: f"http://{address}/"}, {service: key})
        try:
            yield server, fake_services(http=http, tools=tools)
        finally:
            await http.aclose()


def request_parts(received: Received) -> tuple[str, str, dict[str, str]]:
    """Return the method, path and query of a request."""
    parts = urlsplit(received.path)
    return received.method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True))


async def run_search(
    spec: AnySpec,
    params: Mapping[str, Any],
    answers: Mapping[str, HttpResponse | Exception],
    *,
    service: str,
    key: str = "",
    query: Any = "Laos",
    **globals: Any,
) -> tuple[Result, ScriptedHttp]:
    """Run a tool as a node over scripted answers; its service is ``http://t``."""
    http = ScriptedHttp(answers)
    services = fake_services(http=http, tools=ToolSettings({service: "http://t"}, {service: key} if key else {}))
    node_params = {"delay_after_error": 0, **params}
    return await run_component(spec, node_params, services=services, globals={"sys.query": query, **globals}), http
