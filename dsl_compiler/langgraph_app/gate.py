"""The channel that makes a join run once: when every predecessor that can still arrive has arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from langgraph.channels.base import BaseChannel
from langgraph.errors import EmptyChannelError

from ragflow_lg.dsl.joins import JoinRegion

RESET: dict[str, Any] = {"": "reset"}
"""Update that clears the gate for a new turn or round."""

SETTLE: dict[str, Any] = {"": "settle"}
"""Update after which no further tokens are expected, because nothing else can run."""


def gate_key(join: str) -> str:
    """Return the state key of a join's gate."""
    return f"join_{join}"


class JoinGate(BaseChannel[dict[str, Any], dict[str, Any], dict[str, Any]]):
    """A channel that collects tokens. It is available, and so triggers its join, as long as the join may run.

    A token maps a predecessor or router to the targets it chose, or None for all. LangGraph passes all updates from a
    superstep together, so predecessors that finish in the same superstep are counted together. The checkpoint is
    ``{"seen": tokens, "ready": bool}``.
    """

    __slots__ = ("is_ready", "region", "seen")

    def __init__(self, region: JoinRegion) -> None:
        super().__init__(dict)
        self.region = region
        self.seen: dict[str, Sequence[str] | None] = {}
        self.is_ready = False

    @property
    def ValueType(self) -> type[dict[str, Any]]:
        """The type of the stored value."""
        return dict

    @property
    def UpdateType(self) -> type[dict[str, Any]]:
        """Type of an update."""
        return dict

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self)(self.region)
        other.key, other.seen, other.is_ready = self.key, self.seen, self.is_ready
        return other

    def checkpoint(self) -> Any:
        """Return the value to store, or LangGraph's mark for an empty gate."""
        return {"seen": self.seen, "ready": self.is_ready} if self.seen or self.is_ready else super().checkpoint()

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Build a gate from a stored value."""
        other = type(self)(self.region)
        other.key = self.key
        if isinstance(checkpoint, Mapping):
            other.seen, other.is_ready = dict(checkpoint["seen"]), bool(checkpoint["ready"])
        return other

    def get(self) -> dict[str, Any]:
        """Return the tokens.

        Raises:
            EmptyChannelError: if the join is not allowed to run.
        """
        if not self.is_ready:
            raise EmptyChannelError
        return dict(self.seen)

    def is_available(self) -> bool:
        """Return whether the join is allowed to run."""
        return self.is_ready

    def update(self, values: Sequence[dict[str, Any]]) -> bool:
        """Add the tokens from one superstep. Return whether the gate changed."""
        if not values:
            return False
        # the entry node resets a gate and reports to it in one update
        is_reset = any(value.get("") == RESET[""] for value in values)
        seen: dict[str, Sequence[str] | None] = {} if is_reset else dict(self.seen)
        for value in values:
            seen.update({node: chosen for node, chosen in value.items() if node})
        self.seen = seen
        self.is_ready = self.region.is_ready(seen, settle=SETTLE in values)
        return True

    def consume(self) -> bool:
        """Clear the gate when the join starts. Return whether it changed."""
        if not self.is_ready:
            return False
        self.seen, self.is_ready = {}, False
        return True
