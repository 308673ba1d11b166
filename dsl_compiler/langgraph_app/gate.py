"""The channel that makes a join run once, when every predecessor that can still arrive has arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from langgraph._internal._typing import MISSING
from langgraph.channels.base import BaseChannel
from langgraph.errors import EmptyChannelError

from ragflow_lg.dsl.joins import JoinRegion

__all__ = ["RESET", "SETTLE", "JoinGate", "gate_key"]

RESET: dict[str, Any] = {"": "reset"}
"""Update that forgets everything: a new turn begins."""

SETTLE: dict[str, Any] = {"": "settle"}
"""Update that says: nothing else can run, so what has not come never will."""


def gate_key(join: str) -> str:
    """Give the state key of a join's gate."""
    return f"join_{join}"


class JoinGate(BaseChannel[dict[str, Any], dict[str, Any], dict[str, Any]]):
    """Collects tokens; is available, and so triggers its join, while the join may run.

    The update of one superstep is seen whole, so two predecessors that finish together meet here. What is
    stored is ``{"seen": tokens, "ready": bool}``.
    """

    __slots__ = ("is_ready", "region", "seen")

    def __init__(self, region: JoinRegion) -> None:
        super().__init__(dict)
        self.region = region
        self.seen: dict[str, Sequence[str] | None] = {}
        self.is_ready = False

    @property
    def ValueType(self) -> type[dict[str, Any]]:
        """Type of the stored value."""
        return dict

    @property
    def UpdateType(self) -> type[dict[str, Any]]:
        """Type of an update."""
        return dict

    def copy(self) -> Self:
        """Give a copy that changes on its own."""
        other = type(self)(self.region)
        other.key, other.seen, other.is_ready = self.key, self.seen, self.is_ready
        return other

    def checkpoint(self) -> Any:
        """Give what is to be stored; nothing while nothing has come."""
        return {"seen": self.seen, "ready": self.is_ready} if self.seen or self.is_ready else MISSING

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Make a gate from what was stored."""
        other = type(self)(self.region)
        other.key = self.key
        if isinstance(checkpoint, Mapping):
            other.seen, other.is_ready = dict(checkpoint["seen"]), bool(checkpoint["ready"])
        return other

    def get(self) -> dict[str, Any]:
        """Give the tokens while the join may run."""
        if not self.is_ready:
            raise EmptyChannelError
        return dict(self.seen)

    def is_available(self) -> bool:
        """Tell whether the join may run."""
        return self.is_ready

    def update(self, values: Sequence[dict[str, Any]]) -> bool:
        """Take the tokens of one superstep."""
        if not values:
            return False
        seen: dict[str, Sequence[str] | None] = {} if RESET in values else dict(self.seen)
        for value in values:
            seen.update({node: chosen for node, chosen in value.items() if node})
        self.seen = seen
        self.is_ready = self.region.is_ready(seen, settle=SETTLE in values)
        return True

    def consume(self) -> bool:
        """Close again once the join has been started."""
        if not self.is_ready:
            return False
        self.seen, self.is_ready = {}, False
        return True
