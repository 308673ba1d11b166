"""The context of an entire turn, including the parts for nested canvases. It is LangGraph's runtime context.

A turn that runs inside a node of another canvas does not have a session. Its finished node executions (*visits*) are
steps of the outer node: if that node runs again after a crash, they are not repeated but return their stored updates.
Each visit therefore has a name that is the same in every process: the path to its node through the enclosing regions,
the numbers of parallel rounds, and the number of earlier visits to the same place.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct, field

from ragflow_lg.base.errors import RunCancelled
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.events import EngineEvent, EventSink
from ragflow_lg.component.state_size import StateSize
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.services.chat import TokenBudget, Usage

if TYPE_CHECKING:
    from ragflow_lg.services.services import Services
    from ragflow_lg.services.sessions import Steps


STORE_S = 0.05
"""How long an interrupted turn waits after its last call to a service, until LangGraph has stored the result."""


class Limits(Struct, eq=False):
    """The time limits of all running nodes, and a way to end all of them. An instance belongs to one event loop."""

    running: set[asyncio.Timeout] = field(default_factory=set[asyncio.Timeout])

    @asynccontextmanager
    async def limit(self, seconds: float | None) -> AsyncGenerator[asyncio.Timeout]:
        """End the block after ``seconds``, or only by `end_all` if None.

        Raises:
            TimeoutError: if the block was ended. A cancellation from outside remains a cancellation.
        """
        async with asyncio.timeout(seconds) as limit:
            self.running.add(limit)
            try:
                yield limit
            finally:
                self.running.discard(limit)

    def end_all(self) -> None:
        """End everything that is running."""
        for limit in self.running:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())


@contextmanager
def paused(limit: asyncio.Timeout) -> Generator[None]:
    """Do not count the time spent inside this block. After its end, a limit has no time to count."""
    if limit.expired():
        yield
        return
    clock, end = asyncio.get_running_loop().time, limit.when()
    began = clock()
    limit.reschedule(None)
    try:
        yield
    finally:
        if end is not None and limit.when() is None and not limit.expired():
            limit.reschedule(end + clock() - began)


def step_key(task: str, position: str, name: str, arguments: object) -> str:
    """Return the key of a step: 32 hexadecimal digits."""
    text = json.dumps([task, position, name, arguments], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


class Approval(NamedTuple):
    """A call that the user must approve."""

    mark: str
    """Identifies the call."""
    tool: str
    """The tool's name in the policies."""
    title: str
    arguments: JsonValue
    """The arguments of the call, as the guards leave them."""


class Decision(NamedTuple):
    """The user's answer about a call."""

    arguments: Mapping[str, JsonValue]
    """The arguments that the user has seen."""
    refusal: str | None
    """The reason for refusing the call, which may be ``""``; None if it is approved."""


class BegunCall(NamedTuple):
    """A call that has begun."""

    mark: str
    """Identifies the call; a repeated call has the same mark."""
    result: str
    """The key of the step with its result."""
    title: str
    arguments: JsonValue = None
    """The arguments from the model; None if a node was begun."""


class BegunCalls:
    """The calls that must not start twice and that one node of the session's canvas has begun, at any depth.

    An agent's tools, the tools of agents that are tools, and the nodes of canvases that it runs all belong to this
    node. Only it can ask the user, so it keeps one list of the calls.
    """

    def __init__(self, steps: Steps, task: str) -> None:
        self._steps = steps
        self._task = task
        self._count = 0
        self._marks: set[str] = set()
        self._lock = asyncio.Lock()
        self.can_ask = False
        """Whether the node can ask the user, and keeps the results of its steps until the answer."""
        self.questions = 0
        """The number of questions that the node has asked the user."""
        self.open_approvals: dict[str, Approval] = {}
        """The calls that the user must approve and has not been asked about, by mark."""
        self.decisions: dict[str, Decision] = {}
        """What the user has decided, by the mark of the call."""

    async def load(self) -> list[BegunCall]:
        """Read the calls that began before a crash; none of them may start again."""
        calls: list[BegunCall] = []
        while (entry := await self.find("begun call", len(calls))) is not None:
            calls.append(BegunCall(*cast("list[Any]", entry)))
        self._count, self._marks = len(calls), {call.mark for call in calls}
        return calls

    async def add(self, call: BegunCall) -> None:
        """Store that a call begins. It must not start before this method returns."""
        async with self._lock:  # a gap in the numbers would hide the calls after it
            await self.put("begun call", self._count, to_json(list(call)))
            self._count += 1
        self._marks.add(call.mark)

    def contain(self, mark: str) -> bool:
        """Return whether a call with this mark has begun and must not be repeated."""
        return mark in self._marks

    def allow_repeat(self, mark: str) -> None:
        """Permit an interrupted call to start once more."""
        self._marks.discard(mark)

    async def has_result(self, call: BegunCall) -> bool:
        """Return whether the result of a call was stored."""
        return (await self._steps.find(call.result))[0]

    async def find(self, what: str, number: int) -> JsonValue:
        """Return an entry of one of the node's lists, or None."""
        return (await self._steps.find(step_key(self._task, what, "", number)))[1]

    async def put(self, what: str, number: int, value: JsonValue) -> None:
        """Store an entry of one of the node's lists."""
        await self._steps.put(step_key(self._task, what, "", number), value)


class NestedVisits:
    """Names the visits of a nested turn, and collects their usage and texts."""

    def __init__(self, place: str, begun_calls: BegunCalls, budget: TokenBudget | None = None) -> None:
        """``place`` identifies the call in the outer session, ``budget`` is the caller's token budget."""
        self._place = place
        self.begun_calls = begun_calls
        """The calls that must not start twice, of the outer session's node."""
        self.budget = budget or TokenBudget()
        self._rounds: dict[str, int] = {}
        self._visits: Counter[str] = Counter()
        self.usage = Usage()
        """The model usage of all visits."""
        self.texts: list[str] = []
        """The texts of Messages, in order."""
        self.is_paused = False
        """Whether a call in it waits for the user's approval."""

    def number_round(self, namespace: str, index: int) -> None:
        """Record which of several parallel rounds runs under a LangGraph task namespace."""
        self._rounds[namespace] = index

    def name_visit(self, namespace: str) -> str:
        """Return a stable name for a visit that is starting; LangGraph's own task names differ between processes."""
        path, prefix = self._place, ""
        for part in namespace.split("|"):
            prefix = f"{prefix}|{part}" if prefix else part
            index = self._rounds.get(prefix)
            path += "/" + part.rpartition(":")[0] + ("" if index is None else f"[{index}]")
        self._visits[path] += 1
        return f"{path}#{self._visits[path]}"

    def record(self, usage: Usage, text: str) -> None:
        """Add a visit's usage and text."""
        self.usage = self.usage.plus(usage)
        if text:
            self.texts.append(text)

    def restore(self, stored: Any) -> tuple[dict[str, Any], list[str]]:
        """Restore a visit from before a crash. Return its update and the next nodes."""
        self.record(Usage(*stored["usage"]), stored["said"])
        self.budget.charge(stored.get("tokens", 0))
        return stored["update"], stored["goto"]


class TurnContext(Struct, eq=False):
    """All the data that a turn needs and that is never stored.

    ``write`` receives events if there is no sink: in Studio or in a library, this is LangGraph's stream writer.
    """

    services: Services
    sink: EventSink | None = None
    steps: Steps | None = None
    """The store for step results, if the session is stored."""
    joins_nodes: bool = False
    """Whether nodes without effects that follow each other alone share a LangGraph step, which takes much less time."""
    is_cancelled: bool = False
    is_stopping: bool = False
    """Whether the turn stops as soon as no call to a service is running."""
    calls: int = 0
    """The number of running calls to services."""
    has_no_calls: asyncio.Event | None = None
    """Set when the last running call has ended; created for the first who waits for that."""
    outer: TurnContext | None = None
    """The context of the turn that contains this one, for a nested turn."""
    limits: Limits = field(default_factory=Limits)
    nested: NestedVisits | None = None
    """For the turn of a canvas that runs inside a node of another canvas."""
    visits: int = 0
    """The number of node executions that have started."""
    state_size: StateSize = field(default_factory=StateSize)
    redacted_view: RedactedView | None = None
    """Created on first use."""
    publish: Callable[[], Awaitable[None]] | None = None
    """Waits until the events so far have been published, before the result of a node is stored.

    Another process can continue from a stored result, but it cannot report what happened before.
    """
    render_event: Callable[[EngineEvent], Iterable[Any]] | None = None
    """Converts an event for LangGraph's stream writer; by default the event itself is written."""

    def cancel(self) -> None:
        """End the turn: see `stop`. It does not continue elsewhere."""
        self.is_stopping = False
        self.stop()

    def stop(self) -> None:
        """Stop all running nodes at once, and prevent further nodes from starting."""
        self.is_cancelled = True
        self.limits.end_all()

    def interrupt(self) -> None:
        """Stop soon, so that the turn can continue elsewhere: models at once, calls to services when they have ended.

        A model can be asked again, but a call may have an effect that must not be repeated.
        """
        self.is_stopping = True
        if not self.calls:
            self.stop()

    @property
    def outermost(self) -> TurnContext:
        """The context of the session's turn."""
        turn = self
        while turn.outer is not None:
            turn = turn.outer
        return turn

    async def check_interruption(self) -> None:
        """Raise RunCancelled if the turn is being interrupted, after its running calls have ended."""
        turn = self.outermost
        if turn.is_stopping:
            if turn.calls:
                turn.has_no_calls = turn.has_no_calls or asyncio.Event()
                await turn.has_no_calls.wait()  # an exception would stop them
            await asyncio.sleep(STORE_S)
            raise RunCancelled

    @contextmanager
    def calling(self) -> Generator[None]:
        """Delay an interruption until the call to a service inside the block has ended and its result is stored."""
        turn = self.outermost
        turn.calls += 1
        try:
            yield
        finally:
            turn.calls -= 1
            if not turn.calls and turn.has_no_calls is not None:
                turn.has_no_calls.set()
            if not turn.calls and turn.is_stopping:
                asyncio.get_running_loop().call_later(STORE_S, turn.stop)

    async def emit(self, event: EngineEvent, write: Callable[[EngineEvent], None] | None = None) -> None:
        """Emit an event that does not belong to a running component; ``write`` receives it if there is no sink."""
        if self.sink is None:
            self.write(event, write)
            return
        if self.sink.is_full:
            await self.sink.room()
        self.sink.put(event)

    def write(self, event: EngineEvent, write: Callable[[Any], None] | None) -> None:
        """Write an event if there is no sink."""
        if write is None:
            return
        for part in self.render_event(event) if self.render_event is not None else (event,):
            write(part)
