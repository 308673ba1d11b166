"""What components may ask of the world: Protocols only.

The real ones are in ``adapters``; tests bring their own. A component reaches them through
``RunContext.services`` and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from ragflow_lg.ids import RunId
from ragflow_lg.values import JsonValue

__all__ = [
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
    "Services",
]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call of a chat model.

    ``messages`` are ``{"role": "user"|"assistant", "content": text}`` without the system message;
    ``sampling`` holds only what the canvas switched on (``temperature``, ``top_p``, ``presence_penalty``,
    ``frequency_penalty``, ``max_tokens``); ``images`` are ``data:`` URIs for the last user message;
    ``template_kwargs`` goes to the endpoint as ``chat_template_kwargs``.
    """

    system: str
    messages: tuple[Mapping[str, str], ...]
    sampling: Mapping[str, float | int] = field(default_factory=dict[str, float])
    thinking: str = ""
    images: tuple[str, ...] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])


class ChatDelta(NamedTuple):
    """A piece of a streamed answer. ``is_thinking`` marks a provider's separate reasoning text."""

    text: str
    is_thinking: bool = False


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

    async def complete(self, request: ChatRequest) -> str:
        """Give the whole answer; a thinking section is left out."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the answer as it comes; thinking is marked, or between ``<think>`` tags in the text."""
        ...


class ChatModels(Protocol):
    """Finds the model for the ``llm_id`` of a canvas; ``""`` means the default model."""

    def model(self, llm_id: str) -> ChatModel:
        """Give the model, or raise `ragflow_lg.errors.SettingsError` naming the missing setting."""
        ...


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An outgoing HTTP request. Exactly one of ``json`` and ``form`` may be given."""

    method: Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    json: JsonValue = None
    form: Mapping[str, str] | None = None
    proxy: str = ""
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
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


@runtime_checkable
class SupportsClose(Protocol):
    """A service that holds connections."""

    async def aclose(self) -> None:
        """Free them."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """All services of a run."""

    models: ChatModels
    http: HttpClient
    files: Files
    clock: Clock
    ids: Ids
