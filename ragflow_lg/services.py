"""What components may ask of the world: Protocols only.

The real ones are in ``adapters``; tests bring their own. A component reaches them through
``RunContext.services`` and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct, field

from ragflow_lg.ids import RunId
from ragflow_lg.knowledge import Knowledge
from ragflow_lg.tool_policies import ToolPolicies
from ragflow_lg.values import JsonValue

__all__ = [
    "NO_USAGE",
    "ONE_CALL",
    "Caller",
    "ChatAnswer",
    "ChatDelta",
    "ChatModel",
    "ChatModels",
    "ChatRequest",
    "Clock",
    "Files",
    "HttpClient",
    "HttpRequest",
    "HttpResponse",
    "Ids",
    "ServerAnswer",
    "Services",
    "ToolCall",
    "ToolSchema",
    "ToolServer",
    "ToolSettings",
    "Usage",
]


class ToolCall(NamedTuple):
    """A call that a model asks for. ``arguments`` is JSON as the model wrote it, which may be anything."""

    id: str
    name: str
    arguments: str


class Usage(NamedTuple):
    """Tokens as the provider counts them; ``calls`` of a model."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0
    cost: float = 0.0
    """By the prices in the settings, 0 without."""

    def plus(self, other: Usage) -> Usage:
        """Give the sum."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.calls + other.calls,
            self.cost + other.cost,
        )


NO_USAGE, ONE_CALL = Usage(), Usage(calls=1)


class ToolSchema(NamedTuple):
    """A tool as a model is shown it. ``parameters`` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ChatRequest(Struct, frozen=True):
    """One call of a chat model.

    ``messages`` stand behind the system message: ``{"role": "user"|"assistant", "content": text}``, an assistant one
    with ``tool_calls`` (maps with the fields of `ToolCall`), and ``{"role": "tool", "tool_call_id", "content"}``.
    ``sampling`` holds only what the canvas switched on (``temperature``, ``top_p``, ``presence_penalty``,
    ``frequency_penalty``, ``max_tokens``); ``images`` are ``data:`` URIs for the last user message;
    ``template_kwargs`` goes to the endpoint as ``chat_template_kwargs``; ``schema`` asks for an answer that
    matches it, for models that can; at a text of ``stop`` the answer ends.
    """

    system: str
    messages: tuple[Mapping[str, Any], ...]
    sampling: Mapping[str, float | int] = field(default_factory=dict[str, float])
    thinking: str = ""
    images: tuple[str, ...] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tools: tuple[ToolSchema, ...] = ()
    schema: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()


class ChatDelta(NamedTuple):
    """A piece of a streamed answer. ``is_thinking`` marks a provider's separate reasoning text.

    ``calls`` are whole; they and ``usage`` come with the last pieces.
    """

    text: str
    is_thinking: bool = False
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None


class ChatAnswer(NamedTuple):
    """A whole answer, without a separate reasoning text."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = ONE_CALL


class ChatModel(Protocol):
    """A chat model that is ready to be called.

    Both ways raise `ragflow_lg.errors.ServiceError` when the call fails, whenever that is.
    """

    @property
    def context_tokens(self) -> int:
        """How many tokens a request and its answer may have together."""
        ...

    @property
    def has_vision(self) -> bool:
        """Whether the model reads images."""
        ...

    @property
    def has_tools(self) -> bool:
        """Whether the model calls tools by itself."""
        ...

    @property
    def has_schemas(self) -> bool:
        """Whether the model answers by a JSON schema."""
        ...

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Give the whole answer."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the answer as it comes; thinking is marked, or between ``<think>`` tags in the text."""
        ...


class ChatModels(Protocol):
    """Finds the model for the ``llm_id`` of a canvas; ``""`` means the default model."""

    def model(self, llm_id: str) -> ChatModel:
        """Give the model, or raise `ragflow_lg.errors.SettingsError` naming the missing setting."""
        ...


class HttpRequest(Struct, frozen=True):
    """An outgoing HTTP request. Exactly one of ``json`` and ``form`` may be given."""

    method: Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    json: JsonValue = None
    form: Mapping[str, str] | None = None
    proxy: str = ""
    timeout_s: float = 60.0


class HttpResponse(NamedTuple):
    """An answer of any status. ``text`` is decoded by the declared charset, else UTF-8."""

    status: int
    headers: Mapping[str, str]
    text: str
    url: str


class HttpClient(Protocol):
    """The one client for everything outward, guarded against requests into private networks."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request; redirects are not followed.

        Raises:
            ServiceError: for a refused address, a bad URL, a failed connection, a timeout, or an
                answer over the size limit.
        """
        ...


class Files(Protocol):
    """Reads uploaded files."""

    async def read(self, files: Sequence[Any], layout_recognize: str) -> list[str]:
        """Give each file as text or, for an image, as ``data:`` URI, in order."""
        ...


class Clock(Protocol):
    """Time, so that tests can hold it still."""

    def now(self) -> float:
        """Give epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Give seconds that never go back."""
        ...

    def local_time(self) -> str:
        """Give the local time as ``YYYY-MM-DD HH:MM:SS``."""
        ...


class Ids(Protocol):
    """Fresh ids and seeds, so that tests can foresee them."""

    def run_id(self) -> RunId:
        """Give 32 hexadecimal digits."""
        ...

    def seed(self) -> int:
        """Give the seed of a turn, from 0 below 2**31. Seed 0 always draws the first alternative."""
        ...


class ServerAnswer(Struct, frozen=True):
    """What a tool of a server gave. ``others`` are the kinds of its contents that are no text, as ``image``."""

    texts: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    structured: JsonValue = None
    is_error: bool = False
    """Whether the server says that the call failed; ``texts`` then tell why."""


class ToolServer(Protocol):
    """A server of the settings that offers tools: one that speaks the Model Context Protocol."""

    def check(self, tool: str) -> None:
        """Raise `ragflow_lg.errors.SettingsError` if a canvas may not call the tool, or no call is possible at all."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        """Call a tool; ``headers`` are the canvas's own, for servers that are reached over HTTP.

        Raises:
            ServiceError: if the server cannot be reached, breaks off, refuses the call or answers too much.
            TimeoutError: if it does not answer in time; its argument is the limit in seconds.
        """
        ...


@runtime_checkable
class SupportsClose(Protocol):
    """A service that holds connections."""

    async def aclose(self) -> None:
        """Free them."""
        ...


class ToolSettings(Struct, frozen=True):
    """What tools need beside a canvas: other addresses of their services, and keys, by the name of the service."""

    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        """Show no key."""
        return f"ToolSettings(endpoints={self.endpoints!r}, keys of {sorted(self.keys)})"

    def endpoint(self, service: str, default: str) -> str:
        """Give the address of a service, without a slash at its end."""
        return (self.endpoints.get(service) or default).rstrip("/")

    def key(self, service: str) -> str:
        """Give the key of a service, ``""`` if there is none."""
        return self.keys.get(service, "").strip()


class Caller(NamedTuple):
    """Who asks a service: a node, or a tool that it calls. ``position`` tells apart what may ask at the same time.

    It names the rounds of the regions around, from outside, and a tool's call: ``"2.0/1.1"``.
    A node of a canvas that another node plays is named behind that node.
    """

    node: str = ""
    position: str = ""

    def within(self, outer: Caller) -> Caller:
        """Give the caller as it is known outside of the canvas that another caller plays.

        >>> Caller("LLM:A", "0").within(Caller("Canvas:N", "2/1.1"))
        Caller(node='Canvas:N/LLM:A', position='2/1.1>0')
        """
        if not outer.node:
            return self
        return Caller(f"{outer.node}/{self.node}", f"{outer.position}>{self.position}")


class Services(Struct, frozen=True):
    """All services of a run. ``for_caller`` gives them to one caller, where calls are told apart by who makes them."""

    models: ChatModels
    http: HttpClient
    files: Files
    clock: Clock
    ids: Ids
    tools: ToolSettings = field(default_factory=ToolSettings)
    policies: ToolPolicies = field(default_factory=ToolPolicies)
    for_caller: Callable[[Caller], Services] | None = None
    servers: Mapping[str, ToolServer] = field(default_factory=dict[str, ToolServer])
    """Servers of tools, by the id that canvases know them by."""
    knowledge: Knowledge | None = None
    """The datasets that Retrieval searches, None if the settings have none."""
    secrets: tuple[str, ...] = ()
    """Keys and passwords of the settings, so that nothing shows them."""

    def __repr__(self) -> str:
        """Show no secret."""
        return f"Services(servers={sorted(self.servers)})"

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """The secrets, and the keys of tools."""
        return (*self.secrets, *self.tools.keys.values())
