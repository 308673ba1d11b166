"""A turn of a canvas that is played within a node of another: what it tells that node, and what is not done twice.

Such a turn has no session of its own. Its finished visits are steps of the node around: should that run again after
a crash, they are not made again but give their stored updates. For that each visit has a name that is the same in
every process: the way to its node through the regions around it, the numbers of rounds that run side by side, and
how often that place was visited before.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ragflow_lg.services.chat import Usage
from ragflow_lg.services.token_budget import TokenBudget

__all__ = ["NestedTurn"]


class NestedTurn:
    """Names the visits of one such turn, and gathers what they used and said."""

    def __init__(self, place: str, budget: TokenBudget | None = None) -> None:
        """``place`` names the call among all of the session around, ``budget`` is that of who calls."""
        self._place = place
        self.budget = budget or TokenBudget()
        self._rounds: dict[str, int] = {}
        self._visits: Counter[str] = Counter()
        self.usage = Usage()
        """What the models of all visits were asked."""
        self.said: list[str] = []
        """What Messages showed, in order."""

    def number_round(self, namespace: str, index: int) -> None:
        """Note which of several rounds side by side runs under one of LangGraph's names for tasks."""
        self._rounds[namespace] = index

    def task_of(self, namespace: str) -> str:
        """Give the name of a visit that begins, of LangGraph's name for its task, which no other process repeats."""
        path, prefix = self._place, ""
        for part in namespace.split("|"):
            prefix = f"{prefix}|{part}" if prefix else part
            index = self._rounds.get(prefix)
            path += "/" + part.rpartition(":")[0] + ("" if index is None else f"[{index}]")
        self._visits[path] += 1
        return f"{path}#{self._visits[path]}"

    def note(self, usage: Usage, said: str) -> None:
        """Take what a visit used and said."""
        self.usage = self.usage.plus(usage)
        if said:
            self.said.append(said)

    def recall(self, stored: Any) -> tuple[dict[str, Any], list[str]]:
        """Take a visit that was made before a crash; give its update and the next nodes."""
        self.note(Usage(*stored["usage"]), stored["said"])
        self.budget.charge(stored.get("tokens", 0))
        return stored["update"], stored["goto"]
