"""The APIs in the settings, as servers of tools. Each document is read when it is needed first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from msgspec import structs

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError
from ragflow_lg.base.values import to_text
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.integrations.openapi.api_document import (
    MAX_DOCUMENT_BYTES,
    Operation,
    read_document,
    restore_operations,
)
from ragflow_lg.integrations.openapi.api_requests import build_request
from ragflow_lg.integrations.openapi.openapi_settings import ApiSection, ApiSections, check_address
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.tool_policies import ServerAnswer, ServerTool
from ragflow_lg.services.workers import NoWorkers, Workers

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

MAX_LISTED = 20
MAX_ERROR_CHARS = 2_000
MAX_ANSWER_BYTES = 1024 * 1024
_READS = ("GET", "HEAD")
_TEXT_TYPES = ("text/", "json", "xml", "yaml", "javascript", "x-www-form-urlencoded")


class Api:
    """One API: its document, once read, and calls."""

    def __init__(self, id_: str, section: ApiSection, http: GuardedHttpClient, workers: Workers) -> None:
        self._id = id_
        self._section = section
        self._http = http
        self._workers = workers
        self._reading = asyncio.Lock()
        self._operations: Mapping[str, Operation] | None = None
        self.problems: Sequence[str] = ()
        """Why the document's other operations are not offered."""

    def check(self, tool: str) -> None:
        """Raise an error if a canvas may not call an operation."""
        if self._section.allow is not None and tool not in self._section.allow:
            raise SettingsError(
                f"The settings do not allow the operation {tool!r} of the API {self._id!r}. "
                f'Add it to allow in [openapi."{self._id}"].'
            )

    async def operations(self) -> Mapping[str, Operation]:
        """Return the operations that canvases may call, by name.

        Raises:
            ServiceError: if the document cannot be read.
        """
        async with self._reading:
            if self._operations is None:
                try:
                    text, section = await self._read(), self._section
                    values, self.problems = await self._workers.run(
                        read_document, text, section.allow, [*section.headers], bool(section.key)
                    )
                except (OSError, UnicodeDecodeError, ServiceError) as error:
                    raise ServiceError(f"The document of the API {self._id!r} cannot be read: {error}") from error
                self._operations = restore_operations(values)
        return self._operations

    async def tool(self, name: str) -> ServerTool:
        """Return an operation as a tool.

        Raises:
            SettingsError: if there is no such operation.
        """
        self.check(name)
        if (operation := (await self.operations()).get(name)) is None:
            raise SettingsError(f"The document of the API {self._id!r} has no operation {name!r}.")
        return _tool(operation)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ServerAnswer:
        """Call an operation. An answer with another status than 2xx is an error, which has its text."""
        self.check(name)
        if (operation := (await self.operations()).get(name)) is None:
            raise SettingsError(f"The document of the API {self._id!r} has no operation {name!r}.")
        key = self._section.key.read()
        request = build_request(
            operation,
            arguments,
            self._address(operation),
            key=key,
            headers=self._headers(),
            timeout_s=self._section.timeout_s,
            max_response_bytes=MAX_ANSWER_BYTES,
        )
        return _answer(await self._http.send(request), Redactor(self._section.keys()))

    def _headers(self) -> dict[str, str]:
        return {name: value.read() for name, value in self._section.headers.items()}

    def _address(self, operation: Operation) -> str:
        """Return the address of the API, to which its key is sent.

        A document from the network may name its own server only: else it could send the key anywhere.

        Raises:
            SettingsError: if the settings do not name the address, and the document may not.
        """
        if given := self._section.url.get_secret_value():
            return given
        source = self._section.document_url
        with suppress(ValueError):
            address = check_address(urljoin(source, operation.server or "/"))
            if not source or urlsplit(address)[:2] == urlsplit(source)[:2]:
                return address
        raise SettingsError(
            f"The address of the API {self._id!r} is unknown: its document names {operation.server[:200]!r}. "
            f'Set url in [openapi."{self._id}"].'
        )

    async def _read(self) -> str:
        if file := self._section.document_file:
            return await asyncio.to_thread(_read_file, Path(file))
        request = HttpRequest(
            "GET",
            self._section.document_url,
            self._headers(),
            timeout_s=self._section.timeout_s,
            max_response_bytes=MAX_DOCUMENT_BYTES,
        )
        response = await self._http.send(request)
        if response.status != 200:
            raise ServiceError(f"its server answered with status {response.status}")
        return response.text


def _read_file(path: Path) -> str:
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise ServiceError(f"it has more than {MAX_DOCUMENT_BYTES:,} bytes")
    return path.read_text("utf-8")


def _tool(operation: Operation) -> ServerTool:
    effects = "reads" if operation.method in _READS else "writes"
    return ServerTool(operation.name, operation.description, operation.schema, effects)


def _answer(response: HttpResponse, redactor: Redactor) -> ServerAnswer:
    text = redactor.known(response.text)
    if not 200 <= response.status < 300:
        raise ServiceError(f"its server answered with status {response.status}: {text[:MAX_ERROR_CHARS]}")
    kind = to_text(response.headers.get("content-type")).partition(";")[0].strip().lower()
    if text and kind and not any(each in kind for each in _TEXT_TYPES):
        return ServerAnswer(others=(kind[:100],))
    return ServerAnswer((text or f"Status {response.status}, without content.",))


class ApiServers:
    """The APIs by the ids that canvases use. See `ragflow_lg.services.tool_policies.ToolServers`."""

    def __init__(self, settings: Settings, workers: Workers) -> None:
        sections, http = settings.section(ApiSections), settings.http_settings
        hosts = [host for section in sections.values() for host in _hosts(section)]
        self._http = GuardedHttpClient(structs.replace(http, allow=(*http.allow, *hosts)))
        self._workers = workers
        self._apis = {id_: Api(id_, section, self._http, workers) for id_, section in sections.items()}
        self._tenants: list[ApiServers] = []

    def __getitem__(self, id_: str) -> Api:
        if id_ not in self._apis:
            raise SettingsError(f'There is no API {id_!r} in the settings. Add [openapi."{id_}"] with its document.')
        return self._apis[id_]

    def serves(self, server: str) -> bool:
        """Return whether there is an API with this id."""
        return server in self._apis

    def for_tenant(self, settings: Settings, services: Services) -> ApiServers:
        """Return the APIs of a tenant."""
        self._tenants.append(ApiServers(settings, self._workers))
        return self._tenants[-1]

    def check(self, server: str, tool: str) -> None:
        """Raise an error if a canvas may not call an operation."""
        self[server].check(tool)

    async def find_tool(self, server: str, tool: str) -> Sequence[ServerTool]:
        """Return an operation as the document describes it."""
        return [await self[server].tool(tool)]

    async def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ServerAnswer:
        """Call an operation. The ``headers`` of the canvas are not sent."""
        return await self[server].call(tool, arguments)

    async def list_tools(self, server: str) -> Sequence[ServerTool]:
        """Return the operations of an API that canvases may call."""
        return [_tool(operation) for operation in (await self[server].operations()).values()]

    async def aclose(self) -> None:
        """Close the connections."""
        await asyncio.gather(*(tenant.aclose() for tenant in self._tenants))
        await self._http.aclose()


def _hosts(section: ApiSection) -> list[str]:
    """Return the hosts that the operator names, as in ``[http] allow``. They may be in a private network."""
    hosts: list[str] = []
    for url in (section.url.get_secret_value(), section.document_url):
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        hosts += [f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"] if host else []
    return hosts


@asynccontextmanager
async def open_apis(settings: Settings, services: Services) -> AsyncGenerator[ApiServers]:
    """Open the APIs of the settings."""
    async with aclosing(ApiServers(settings, services.workers)) as apis:
        yield apis


async def probe_apis(settings: Settings) -> list[CheckResult]:
    """Report the operations of each API."""
    async with aclosing(ApiServers(settings, NoWorkers())) as apis:
        return await asyncio.gather(*(_probe(id_, apis[id_]) for id_ in settings.section(ApiSections)))


async def _probe(id_: str, api: Api) -> CheckResult:
    try:
        names = list(await api.operations())
    except RagflowLgError as error:
        return CheckResult(False, f"API {id_} cannot be used", str(error))
    listed = ", ".join(names[:MAX_LISTED]) or "no operations"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return CheckResult(True, f"API {id_} offers {listed}{more}", " ".join(api.problems[:MAX_LISTED]))
