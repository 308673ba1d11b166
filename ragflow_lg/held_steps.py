"""Results of steps in memory, for as long as one visit of a node lasts."""

from __future__ import annotations

from ragflow_lg.values import JsonValue

__all__ = ["HeldSteps"]


class HeldSteps:
    """The `ragflow_lg.sessions.Steps` of a visit whose session is not stored: its attempts share them."""

    def __init__(self) -> None:
        self._results: dict[str, JsonValue] = {}

    async def put(self, key: str, value: JsonValue) -> None:
        """Hold a result."""
        self._results[key] = value

    async def find(self, key: str) -> tuple[bool, JsonValue]:
        """Give whether there is a result, and the result."""
        return key in self._results, self._results.get(key)
