"""The budget of a research: rounds, queries, tokens, money and minutes.

Each check is a stored step, so a research that continues after a crash stops where it would have stopped without the
crash. Minutes count only while the research runs: the time between a crash and the continuation costs nothing.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext


class ResearchLimits(Struct, frozen=True):
    """The limits of a research, in addition to the agent's rounds and tokens; 0 means no limit."""

    max_queries: int = 24
    max_minutes: float = 15.0
    max_cost: float = 0.0
    """In the currency of the prices in the settings."""


class ResearchBudget:
    """What a research has used up."""

    def __init__(self, ctx: RunContext, limits: ResearchLimits) -> None:
        self._ctx = ctx
        self._limits = limits
        self._seconds = 0.0
        self._checked_at = ctx.services.clock.monotonic()
        self.queries = 0
        """The number of queries so far."""

    @property
    def queries_left(self) -> int | None:
        """The number of queries that may still be asked, None without a limit."""
        limit = self._limits.max_queries
        return max(0, limit - self.queries) if limit > 0 else None

    async def find_end(self, position: str, *, asks: bool = True) -> str:
        """Return why the budget is used up, or ``""`` if it is not. ``position`` names the check within the visit.

        ``asks`` is false before work that needs no further query.

        Raises:
            ComponentError: if the cost is limited but unknown.
        """

        async def look() -> JsonValue:
            now = self._ctx.services.clock.monotonic()
            seconds = self._seconds + now - self._checked_at
            return {"seconds": seconds, "end": self._describe_end(seconds, asks=asks)}

        stored: Any = await self._ctx.step("research budget", None, look, position=f"budget {position}")
        self._seconds, self._checked_at = stored["seconds"], self._ctx.services.clock.monotonic()
        return stored["end"]

    def _describe_end(self, seconds: float, *, asks: bool) -> str:
        limits, usage = self._limits, self._ctx.usage
        if self._ctx.budget.is_spent:
            return "The token budget is used up."
        if asks and self.queries_left == 0:
            return f"All {limits.max_queries} queries have been asked."
        if 0 < limits.max_minutes * 60 <= seconds:
            return f"The time limit of {limits.max_minutes:g} minutes has been reached."
        if limits.max_cost > 0:
            if usage.calls and not usage.cost:
                raise ComponentError(
                    "max_cost is set, but the cost of this model is unknown. Set its input_price and output_price in "
                    "the settings, or remove max_cost.",
                    node=self._ctx.node.id,
                )
            if usage.cost >= limits.max_cost:
                return f"The cost limit of {limits.max_cost:g} has been reached."
        return ""
