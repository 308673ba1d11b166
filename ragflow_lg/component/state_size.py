"""The size of a turn's state: the globals, and the outputs of all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import MAPS
from ragflow_lg.services.services import StateLimits

_CONVERSATION = "sys.history"
_GLOBAL = "global "


class Size(NamedTuple):
    """A number of characters and entries."""

    chars: int = 0
    entries: int = 0


def size_of(value: Any) -> Size:
    """Return the size of a JSON value."""
    chars = entries = 0
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            chars += len(current)
        elif current is None or isinstance(current, int | float):
            continue
        elif isinstance(current, MAPS):
            pairs = cast("Mapping[str, Any]", current)
            entries += len(pairs)
            chars += sum(map(len, pairs))
            pending.extend(pairs.values())
        elif isinstance(current, list | tuple):
            items = cast("list[Any]", current)
            entries += len(items)
            pending.extend(items)
    return Size(chars, entries)


def global_part(name: str) -> str:
    """Return the name of a global as a part of the state."""
    return _GLOBAL + name


def output_part(node: str, name: str) -> str:
    """Return the name of a single output as a part of the state; the part of a whole node has its id."""
    return f"{node}@{name}"


class StateSize:
    """The sizes of the parts of a turn's state, as far as this process knows them.

    If a change would exceed a limit of the state, it raises ComponentError, and the part keeps its size.
    """

    def __init__(self) -> None:
        self._parts: dict[str, Size] | None = None
        self._globals: Mapping[str, Any] = {}
        """Those of the first node. They are measured together: there can be tens of thousands."""
        self._chars = 0
        self._entries = 0

    def open(self, state: Mapping[str, Any]) -> None:
        """Measure the state that the first node of a run finds; do nothing for further nodes.

        The conversation does not count, because it grows with every turn.
        """
        if self._parts is None:
            self._parts = {}
            for node, outputs in state.get("outputs", {}).items():
                self._put(node, size_of(outputs), Size())
            self._globals = state.get("globals", {})
            whole = size_of([value for name, value in self._globals.items() if name != _CONVERSATION])
            self._chars += whole.chars
            self._entries += whole.entries - len(self._globals) + (_CONVERSATION in self._globals)

    def replace(self, part: str, size: Size, limits: StateLimits) -> None:
        """Set the size of a part: the outputs of a node or a global."""
        old = self._size_of(part)
        chars, entries = size.chars - old.chars, size.entries - old.entries
        if chars > 0 and self._chars + chars > limits.state_chars:
            raise ComponentError(
                f"All values of the turn would have more than {limits.state_chars:,} characters (state_chars)."
            )
        if entries > 0 and self._entries + entries > limits.state_entries:
            raise ComponentError(f"All values of the turn would have more than {limits.state_entries:,} entries.")
        self._put(part, size, old)

    def add(self, part: str, size: Size, limits: StateLimits) -> None:
        """Add to the size of a part."""
        old = self._size_of(part)
        self.replace(part, Size(old.chars + size.chars, old.entries + size.entries), limits)

    def _size_of(self, part: str) -> Size:
        """Return the size of a part so far."""
        if (size := (self._parts or {}).get(part)) is not None:
            return size
        name = part.removeprefix(_GLOBAL)
        return size_of(self._globals.get(name)) if name not in (part, _CONVERSATION) else Size()

    def _put(self, part: str, size: Size, old: Size) -> None:
        self._chars += size.chars - old.chars
        self._entries += size.entries - old.entries
        parts = self._parts = {} if self._parts is None else self._parts
        parts[part] = size
