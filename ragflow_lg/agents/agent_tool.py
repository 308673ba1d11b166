"""What a model may call, whatever stands behind it: a component, another agent, a tool of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ragflow_lg.services import Usage
from ragflow_lg.values import JsonValue

__all__ = ["AgentTool", "Call", "Outcome"]


class Outcome(NamedTuple):
    """What a call gave. All of it is JSON but ``usage``."""

    value: JsonValue
    """What the model is told; a text where ``is_error``."""
    is_error: bool = False
    chunks: Sequence[Mapping[str, JsonValue]] = ()
    """What answers may cite from now on."""
    usage: Usage = Usage()
    """What models behind the tool were asked."""
    seconds: float = 0.0
    """How long it took."""


Call: TypeAlias = Callable[[Mapping[str, Any], str], Awaitable[Outcome]]
"""Calls a tool with arguments; the text tells this call's steps from those of the agent's other calls.

It raises `pydantic.ValidationError` for arguments that do not fit, `ragflow_lg.errors.RagflowLgError` for what fails.
"""


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One tool of an agent."""

    name: str
    """Name of the function, before it is numbered."""
    title: str
    """Name for people."""
    description: str
    parameters: Mapping[str, Any]
    """The JSON schema of its arguments, an object."""
    call: Call
    timeout_s: float | None = None
