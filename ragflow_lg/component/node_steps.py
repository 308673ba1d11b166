"""Steps of a node execution: calls whose results are stored, so that none is made twice after a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.turn_context import BegunCall, BegunCalls, TurnContext, step_key

if TYPE_CHECKING:
    from ragflow_lg.component.plan import PlanNode
    from ragflow_lg.services.sessions import Steps


class MemorySteps:
    """The `ragflow_lg.services.sessions.Steps` for a visit in a session that is not stored, shared by its attempts."""

    def __init__(self) -> None:
        self._results: dict[str, JsonValue] = {}

    async def put(self, key: str, value: JsonValue) -> None:
        """Store a result."""
        self._results[key] = value

    async def find(self, key: str) -> tuple[bool, JsonValue]:
        """Return whether there is a stored result, and the result."""
        return key in self._results, self._results.get(key)


class NodeSteps:
    """The steps of one node execution."""

    node: PlanNode
    steps = 0
    """The number of steps so far."""
    replayed_steps: frozenset[str] = frozenset()
    """The positions of steps whose results were restored."""

    def __init__(self, turn: TurnContext, task: str, place: str, memory_steps: MemorySteps | None) -> None:
        self._turn = turn
        self._memory_steps = memory_steps
        self.task = task
        """The name of this node execution, unique in the session and unchanged if a run resumes after a crash."""
        self.place = place
        """The position for `ragflow_lg.services.services.Caller`. It is the same in every run that does the same."""

    async def step(
        self,
        name: str,
        arguments: object,
        call: Callable[[], Awaitable[JsonValue]],
        *,
        position: str = "",
        in_memory: bool = False,
    ) -> JsonValue:
        """Run an expensive call once: if the node runs again after a crash, it gets the stored result.

        This method returns after the result is stored. ``position`` distinguishes steps that run in parallel; by
        default, steps are numbered. ``name`` and ``arguments`` (JSON) are part of the key, so a result is never used
        for a different call. ``in_memory``: if the session is not stored, keep the result in memory; results of a node
        with retries are always kept for its next attempt.
        """
        self.steps += 1
        steps, task = self._steps()
        if steps is self._memory_steps and not (in_memory or self.node.extra_attempts):
            return to_json(await call())
        key = step_key(task, position or str(self.steps), name, arguments)
        has_result, result = await steps.find(key)
        if has_result:
            self.replayed_steps |= {position}
        else:
            result = to_json(await call())
            await steps.put(key, result)
        return result

    @cached_property
    def begun_calls(self) -> BegunCalls:
        """The calls that must not start twice, shared by the node of the session's canvas and everything inside it."""
        nested = self._turn.nested
        return BegunCalls(*self._steps()) if nested is None else nested.begun_calls

    def has_begun(self, name: str, arguments: object, position: str) -> bool:
        """Return whether `begin` was called with these arguments by this node, and the call must not be repeated."""
        return self.begun_calls.contain(self._mark(name, arguments, position))

    async def begin(self, name: str, arguments: object, position: str, title: str = "") -> None:
        """Mark the start of a call that must not start twice. The mark is stored before this method returns.

        The call is made inside a `step` with the same name, arguments and position.
        """
        result = step_key(self._steps()[1], position, name, arguments)
        mark = self._mark(name, arguments, position)
        await self.begun_calls.add(BegunCall(mark, result, title or name, cast("Any", to_json(arguments))))

    def _mark(self, name: str, arguments: object, position: str) -> str:
        return step_key(self._steps()[1], f"{position} begun", name, arguments)

    def _steps(self) -> tuple[Steps, str]:
        """Return the store for this node's steps, and the name of the node execution in that store."""
        steps = self._turn.steps
        return (self._get_memory_steps(), self.place) if steps is None or not self.task else (steps, self.task)

    def _get_memory_steps(self) -> MemorySteps:
        if self._memory_steps is None:
            self._memory_steps = MemorySteps()
        return self._memory_steps
