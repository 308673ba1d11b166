"""What names a step, and results of steps in memory for as long as one visit of a node lasts."""

from __future__ import annotations

import hashlib
import json

from ragflow_lg.base.values import JsonValue

__all__ = ["MemorySteps", "step_key"]


class MemorySteps:
    """The `ragflow_lg.services.sessions.Steps` of a visit whose session is not stored: its attempts share them."""

    def __init__(self) -> None:
        self._results: dict[str, JsonValue] = {}

    async def put(self, key: str, value: JsonValue) -> None:
        """Hold a result."""
        self._results[key] = value

    async def find(self, key: str) -> tuple[bool, JsonValue]:
        """Give whether there is a result, and the result."""
        return key in self._results, self._results.get(key)


def step_key(task: str, position: str, name: str, arguments: JsonValue) -> str:
    """Give the key of a step: 32 hexadecimal digits."""
    text = json.dumps([task, position, name, arguments], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
