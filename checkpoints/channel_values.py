"""LangGraph's own objects in channels as plain values, and back: data never becomes any object but these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langgraph.types import Interrupt, Send

__all__ = ["as_object", "as_plain"]

_INTERRUPT = "__interrupt__"
_TASKS = "__pregel_tasks"
_ERROR = "__error__"


def as_plain(channel: str, value: Any) -> Any:
    """Give the value of a channel without objects of LangGraph's."""
    if channel == _INTERRUPT:
        return _plain_interrupts(value)
    if channel == _TASKS:
        sends = cast("list[Send]", value if isinstance(value, list) else [value])
        return {"list": isinstance(value, list), "sends": [{"node": s.node, "arg": s.arg} for s in sends]}
    if channel == _ERROR and isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return value


def as_object(channel: str, value: Any) -> Any:
    """Give the value that a channel had before `as_plain`.

    Raises:
        TypeError, LookupError, AttributeError: if somebody else has changed it.
    """
    if channel == _INTERRUPT:
        pauses = value.get("pauses")
        return value["data"] if pauses is None else [_opened_pause(pause) for pause in pauses]
    if channel == _TASKS:
        sends = [Send(entry["node"], entry["arg"]) for entry in value["sends"]]
        return sends if value["list"] else sends[0]
    return value


def _plain_interrupts(value: Any) -> dict[str, Any]:
    entries = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    if all(isinstance(entry, Interrupt) for entry in entries):
        return {"pauses": [_pause(pause) for pause in entries]}
    return {"data": value}


def _pause(pause: Interrupt) -> dict[str, Any]:
    schema: Any = pause.response_schema
    kept: dict[str, Any] = {"value": pause.value, "id": pause.id}
    return {**kept, "response_schema": schema} if isinstance(schema, dict) else kept  # a type could not be kept


def _opened_pause(stored: Mapping[str, Any]) -> Interrupt:
    return Interrupt(value=stored["value"], id=stored["id"], response_schema=stored.get("response_schema"))
