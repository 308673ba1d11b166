"""The services of a run, and the Protocols for files, the clock and ids.

The implementations are in ``adapters``; tests have their own. Components access services only through
``RunContext.services``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import replace

from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError
from ragflow_lg.base.extras import describe_error
from ragflow_lg.base.ids import RunId
from ragflow_lg.services.artifacts import Artifacts, NoArtifacts
from ragflow_lg.services.chat import ChatModels, SupportsTitles
from ragflow_lg.services.http import HttpClient, HttpRequest, HttpResponse
from ragflow_lg.services.tool_policies import ToolPolicies, ToolSettings
from ragflow_lg.services.workers import NoWorkers, Workers

T = TypeVar("T")

logger = logging.getLogger(__name__)


class FileContent(NamedTuple):
    """The bytes of a file."""

    name: str
    content: bytes


class Files(Protocol):
    """A reader of uploaded files."""

    async def read(self, files: Sequence[Any]) -> list[str]:
        """Return each file, in order, as text or (for an image) as a ``data:`` URI."""
        ...

    async def load(self, file: Any) -> FileContent | None:
        """Return the bytes of a file: one with an id, or a ``data:`` URI. Return None for anything else.

        Raises:
            ServiceError: if it cannot be read.
        """
        ...


class DocumentParser(Protocol):
    """A parser of files that an integration may bring; without one, files have the text that they contain."""

    async def parse(self, file: FileContent, layout_recognize: str) -> str | None:
        """Return the text of a file, such as the one on scanned pages; None to have it read as without a parser.

        ``layout_recognize`` is the canvas's choice among RAGFlow's parsers, ``""`` by default.
        """
        ...


class Clock(Protocol):
    """The current time; replaceable in tests."""

    def now(self) -> float:
        """Return the time in epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Return the monotonic time in seconds."""
        ...

    def local_time(self) -> str:
        """Return the local time as ``YYYY-MM-DD HH:MM:SS``."""
        ...


class Ids(Protocol):
    """A source of ids and seeds; predictable in tests."""

    def run_id(self) -> RunId:
        """Return a new id with 32 hexadecimal digits."""
        ...

    def seed(self) -> int:
        """Return a seed for a turn, from 0 to 2**31 - 1. Seed 0 always selects the first alternative."""
        ...


@runtime_checkable
class SupportsClose(Protocol):
    """A service with connections to close."""

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@runtime_checkable
class SupportsWarmUp(Protocol):
    """A service whose first call would take long."""

    async def warm_up(self) -> object:
        """Prepare the first call."""
        ...


@runtime_checkable
class SupportsTenants(Protocol):
    """A service of an integration that is another one for each tenant."""

    def for_tenant(self, settings: Any, services: Services) -> Any:
        """Return the service of a tenant. Settings and services have what the tenant may use."""
        ...


class StateLimits(Struct, frozen=True):
    """Limits on the state of a turn. Source of the names: the settings."""

    state_chars: int = 64 * 1024 * 1024
    """Maximum number of characters in all texts and keys."""
    state_entries: int = 500_000
    """Maximum number of list entries and map keys."""


class Caller(NamedTuple):
    """The caller of a service: a node, or one of its tool calls.

    ``position`` distinguishes calls that may run at the same time. It contains the rounds of the enclosing regions,
    outermost first, and the tool call: ``"2.0/1.1"``. A node inside a nested canvas is named after the node that runs
    that canvas.
    """

    node: str = ""
    position: str = ""

    def within(self, outer: Caller) -> Caller:
        """Return this caller as seen from outside the canvas that ``outer`` runs.

        >>> Caller("LLM:A", "0").within(Caller("Canvas:N", "2/1.1"))
        Caller(node='Canvas:N/LLM:A', position='2/1.1>0')
        """
        if not outer.node:
            return self
        return Caller(f"{outer.node}/{self.node}", f"{outer.position}>{self.position}")


class ClosedHttp:
    """An HTTP client that sends nothing."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Refuse the request."""
        raise ServiceError("Nothing is sent with the model demo.")


class Services(Struct, frozen=True):
    """All services of a run.

    ``for_caller`` returns them for one caller, if the implementation distinguishes callers.
    """

    models: ChatModels
    http: HttpClient
    files: Files
    clock: Clock
    ids: Ids
    tools: ToolSettings = field(default_factory=ToolSettings)
    policies: ToolPolicies = field(default_factory=ToolPolicies)
    for_caller: Callable[[Caller], Services] | None = None
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts that replace the engine's own prompts, by name; see `ragflow_lg.models.prompt_texts`."""
    workers: Workers = field(default_factory=NoWorkers)
    """Processes for work whose time and memory depend on hostile input."""
    artifacts: Artifacts = field(default_factory=NoArtifacts)
    """What keeps the files that programs of CodeExec and documents create."""
    state_limits: StateLimits = field(default_factory=StateLimits)
    """Limits on the state of a turn."""
    integrations: Mapping[type, Any] = field(default_factory=dict[type, Any])
    """The services of integrations, by their Protocols."""
    secrets: tuple[str, ...] = ()
    """Keys and passwords from the settings, which are redacted in all output."""
    is_demo: bool = False
    """Whether the demo model replaces all models: nothing is sent, and what the settings lack gets sample results."""
    unopened: Mapping[type, RagflowLgError] = field(default_factory=dict[type, RagflowLgError])
    """Why services of integrations could not be opened, by their Protocols."""

    def __repr__(self) -> str:
        """Hide the secrets."""
        return "Services(…)"

    def of(self, protocol: type[T]) -> T:
        """Return the service of an integration.

        Raises:
            SettingsError: if there is none.
        """
        if (service := self.find(protocol)) is None:
            name = protocol.__name__
            raise SettingsError(f"This program has no {name}. Pass Services(integrations={{{name}: …}}).")
        return service

    def find(self, protocol: type[T]) -> T | None:
        """Return the service of an integration, or None if there is none.

        Raises:
            RagflowLgError: if it cannot be opened.
        """
        if protocol not in self.integrations and protocol in self.unopened:
            raise self.unopened[protocol]
        return self.integrations.get(protocol)

    def for_node(self, title: str) -> Services:
        """Return the services of a node in a demo: a model that knows its title, and no way to send anything."""
        models = self.models.for_node(title) if isinstance(self.models, SupportsTitles) else self.models
        return replace(self, models=models, http=ClosedHttp())

    async def read_files(self, files: Sequence[Any], layout_recognize: str) -> list[str]:
        """Return each file, in order, as text or (for an image) as a ``data:`` URI. A parser reads what it can.

        Raises:
            RagflowLgError: if a file cannot be read.
        """
        if self.find(DocumentParser) is None:
            return await self.files.read(files)
        texts = [await self.parse_file(await self.files.load(file), layout_recognize) for file in files]
        others = iter(await self.files.read([file for file, text in zip(files, texts, strict=True) if text is None]))
        return [next(others) if text is None else text for text in texts]

    async def parse_file(self, content: FileContent | None, layout_recognize: str) -> str | None:
        """Return what a parser reads in a file; None if there is no parser, or if it leaves the file to others.

        Raises:
            ServiceError: if it fails.
        """
        parser = self.find(DocumentParser)
        if parser is None or content is None:
            return None
        try:
            return await parser.parse(content, layout_recognize)
        except RagflowLgError:
            raise
        except Exception as error:  # third-party code may raise anything
            raise ServiceError(f"The file {content.name!r} cannot be parsed: {describe_error(error)}.") from error

    async def warm_up(self) -> None:
        """Prepare the services of integrations whose first call would take long."""
        for service in self.integrations.values():
            if isinstance(service, SupportsWarmUp):
                try:
                    await service.warm_up()
                except Exception:  # third-party code may raise anything, and the others go on
                    logger.exception("%s cannot be prepared", type(service).__name__)

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """The secrets, including tool keys."""
        return (*self.secrets, *self.tools.keys.values())
