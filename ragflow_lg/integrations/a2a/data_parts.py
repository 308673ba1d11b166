"""JSON in A2A messages, whose numbers are all floating-point ones."""

from __future__ import annotations

from typing import Any, cast

from google.protobuf.json_format import MessageToDict

MAX_EXACT = 2**53
"""From here on, whole numbers may have been changed on their way."""


def read_data(data: Any, *, is_exact: bool = False) -> Any:
    """Return the value of a data part, in which whole numbers are integers again. Those from `MAX_EXACT` on are not.

    Raises:
        ValueError: if a number is infinite or none, or, if ``is_exact``, a whole one from `MAX_EXACT` on.
    """
    return _whole(MessageToDict(data), is_exact)


def _whole(value: Any, is_exact: bool) -> Any:
    if isinstance(value, float) and value.is_integer():
        if is_exact and abs(value) >= MAX_EXACT:
            raise ValueError(value)
        return int(value) if abs(value) < MAX_EXACT else value
    if isinstance(value, dict):
        return {name: _whole(each, is_exact) for name, each in cast("dict[str, Any]", value).items()}
    return [_whole(each, is_exact) for each in cast("list[Any]", value)] if isinstance(value, list) else value
