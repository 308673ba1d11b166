"""Converts LangGraph's own channel objects to plain values and back. Stored data never becomes any other object.

Their classes are imported on first use: with them, LangGraph loads LangSmith, which a store can do without until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, TASKS

if TYPE_CHECKING:
    from langgraph.types import Interrupt, Send


def to_plain(channel: str, value: Any) -> Any:
    """Return a channel's value without LangGraph objects."""
    if channel == INTERRUPT:
        return _plain_interrupts(value)
    if channel == TASKS:
        sends = cast("list[Send]", value if isinstance(value, list) else [value])
        return {"list": isinstance(value, list), "sends": [{"node": s.node, "arg": s.arg} for s in sends]}
    if channel == ERROR and isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return value


def to_object(channel: str, value: Any) -> Any:
    """Return the value that a channel had before `to_plain`.

    Raises:
        TypeError, LookupError, AttributeError: if the stored value was modified by something else.
    """
    if channel == INTERRUPT:
        pauses = value.get("pauses")
        return value["data"] if pauses is None else [_to_interrupt(pause) for pause in pauses]
    if channel == TASKS:
        from langgraph.types import Send

        sends = [Send(entry["node"], entry["arg"]) for entry in value["sends"]]
        return sends if value["list"] else sends[0]
    return value


def _plain_interrupts(value: Any) -> dict[str, Any]:
    from langgraph.types import Interrupt

    entries = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    if all(isinstance(entry, Interrupt) for entry in entries):
        return {"pauses": [_plain_interrupt(pause) for pause in entries]}
    return {"data": value}


def _plain_interrupt(pause: Interrupt) -> dict[str, Any]:
    schema: Any = pause.response_schema
    plain: dict[str, Any] = {"value": pause.value, "id": pause.id}
    return {**plain, "response_schema": schema} if isinstance(schema, dict) else plain  # a type cannot be stored


def _to_interrupt(stored: Mapping[str, Any]) -> Interrupt:
    from langgraph.types import Interrupt

    return Interrupt(value=stored["value"], id=stored["id"], response_schema=stored.get("response_schema"))
