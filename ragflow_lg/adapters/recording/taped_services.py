"""Services whose calls go through a tape: a recorder, which calls the real ones, or a player, which never does.

What the Protocol of a service declares decides how its calls are recorded: a coroutine is an exchange, an iterator a
stream, another function or a property a fact, which stays the same during a run. A function that returns a service
leads to it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, get_origin, get_type_hints

from msgspec.structs import replace

from ragflow_lg.component.integration import recorded_protocols
from ragflow_lg.services.chat import ChatModels
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.services import Caller, Services

_TAPED: Mapping[str, Any] = {"models": ChatModels, "http": HttpClient}
"""The services with an answer from outside, by their names in `Services`. Integrations name theirs."""


class Call(NamedTuple):
    """A call of a service. ``answer`` is the type of its answer."""

    name: str
    """The service and its method, such as ``http.send``."""
    caller: Caller
    arguments: Mapping[str, Any]
    answer: Any = None


class Tape(Protocol):
    """A recorder or a player. ``read`` calls the real service."""

    async def exchange(self, call: Call, read: Callable[[], Awaitable[Any]]) -> Any:
        """Return the answer to a request."""
        ...

    def stream(self, call: Call, read: Callable[[], AsyncIterator[Any]]) -> AsyncIterator[Any]:
        """Yield the pieces of a model's answer."""
        ...

    def fact(self, call: Call, read: Callable[[], Any]) -> Any:
        """Return a value that is the same whenever it is asked for."""
        ...

    def once(self, name: str, read: Callable[[], Any]) -> Any:
        """Return a value that is another one each time."""
        ...


class _Method(NamedTuple):
    """How a Protocol declares a method."""

    names: tuple[str, ...]
    answer: Any
    is_coroutine: bool = False
    is_stream: bool = False
    is_service: bool = False


@cache
def _method(protocol: Any, name: str) -> _Method | None:
    declared = getattr(protocol, name, None)
    if declared is None or isinstance(declared, property):
        return None
    names = tuple(inspect.signature(declared).parameters)[1:]
    answer = get_type_hints(declared)["return"]
    return _Method(
        names,
        answer,
        inspect.iscoroutinefunction(declared),
        get_origin(answer) is AsyncIterator,
        bool(getattr(answer, "_is_protocol", False)),
    )


@cache
def _properties(protocol: Any) -> tuple[str, ...]:
    return tuple(name for name, _ in inspect.getmembers(protocol, lambda member: isinstance(member, property)))


_NOTHING: Mapping[str, Any] = {}


def _refuse(_: object) -> bool:
    return False


class TapedService:
    """A service for a caller. ``known`` are arguments that have led to it, such as the name of a model."""

    def __init__(
        self, tape: Tape, caller: Caller, path: str, protocol: Any, service: Any, known: Mapping[str, Any] = _NOTHING
    ) -> None:
        self._tape = tape
        self._caller = caller
        self._path = path
        self._protocol = protocol
        self._service = service
        self._known = known

    def __getattr__(self, name: str) -> Any:
        """Return a method that calls the service through the tape."""
        if name == "allows_writes":  # a replay never writes, whatever the settings were
            return getattr(self._service, name, _refuse)
        method = None if name.startswith("_") else _method(self._protocol, name)
        if method is None:
            raise AttributeError(name)

        def ask(*values: Any, **named: Any) -> Any:
            arguments = {**self._known, **dict(zip(method.names, values, strict=False)), **named}
            return self._ask(name, method, arguments, lambda: getattr(self._service, name)(*values, **named))

        return ask

    def _ask(self, name: str, method: _Method, arguments: Mapping[str, Any], read: Callable[[], Any]) -> Any:
        tape, call = self._tape, Call(f"{self._path}.{name}", self._caller, arguments, method.answer)
        if method.is_stream:
            return tape.stream(call, read)
        if method.is_coroutine:
            return tape.exchange(call, read)
        if not method.is_service:
            return tape.fact(call, read)
        found: list[Any] = []

        def read_properties() -> dict[str, Any]:
            found.append(read())
            return {key: getattr(found[0], key) for key in _properties(method.answer)}

        properties = tape.fact(call._replace(answer=dict[str, Any]), read_properties)
        service = TapedService(tape, self._caller, self._path, method.answer, found[0] if found else None, arguments)
        service.__dict__.update(properties)
        return service


def tape_services(tape: Tape, services: Services) -> Services:
    """Return services that go through a tape, which distinguishes their callers."""
    clock, ids = services.clock, services.ids
    local_time, seed = (
        partial(tape.once, "clock.local_time", clock.local_time),
        partial(tape.once, "ids.seed", ids.seed),
    )
    taped_clock: Any = SimpleNamespace(now=clock.now, monotonic=clock.monotonic, local_time=local_time)
    taped_ids: Any = SimpleNamespace(run_id=ids.run_id, seed=seed)

    def for_caller(caller: Caller) -> Services:
        def inside(inner: Caller) -> Services:
            return for_caller(inner.within(caller))

        taped: dict[str, Any] = {
            name: TapedService(tape, caller, name, protocol, service)
            for name, protocol in _TAPED.items()
            if (service := getattr(services, name)) is not None
        }
        integrations = dict(services.integrations)
        for protocol, name in recorded_protocols().items():
            if protocol in integrations:
                integrations[protocol] = TapedService(tape, caller, name, protocol, integrations[protocol])
        taped |= {"clock": taped_clock, "ids": taped_ids, "integrations": integrations}
        return replace(services, for_caller=inside, **taped)

    return for_caller(Caller())
