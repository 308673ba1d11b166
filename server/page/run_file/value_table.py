"""A table of values, each stored once, without secrets, long ones cut, and all together with a largest size."""

from __future__ import annotations

from typing import Any

import orjson

from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import is_secret_name

MAX_BYTES = 20_000_000
LEFT_OUT = "… (left out: the file has reached its largest size)"


class SharedValues:
    """Values by number. A state names the numbers, because most of its values are those of the state before."""

    def __init__(self, view: RedactedView, max_bytes: int = MAX_BYTES) -> None:
        self.values: list[JsonValue] = []
        self.cut = 0
        """How many values are not complete."""
        self._view = view
        self._left = max_bytes
        self._numbers: dict[bytes, int] = {}

    def add(self, value: Any, name: str) -> int:
        """Return the number of a value. ``name`` is the field that contains it; a secret name hides the value."""
        text = _encode(value)
        key = b"*" + text if is_secret_name(name) else text
        if (number := self._numbers.get(key)) is None:
            shown = self._view.value({name: value}) if name else self._view.value(value)
            number = self._append(next(iter(shown.values()), None) if name and isinstance(shown, dict) else shown, text)
            self._numbers[key] = number
        return number

    def _append(self, shown: JsonValue, text: bytes) -> int:
        size = len(_encode(shown))
        is_full = size > self._left
        self._left -= 0 if is_full else size
        self.cut += is_full or (len(text) > 2 * size and b"\xe2\x80\xa6 (" in _encode(shown))
        self.values.append(LEFT_OUT if is_full else shown)
        return len(self.values) - 1


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
