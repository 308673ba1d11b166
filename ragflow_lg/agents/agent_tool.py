"""What a model may call, whatever stands behind it: a component, another agent, a tool of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.chat import Usage

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
    artifacts: Sequence[Mapping[str, JsonValue]] = ()
    """Files that it made: ``{name, url, mime_type, size}`` each."""
    documents: Sequence[Mapping[str, JsonValue]] | None = None
    """The documents of what was found, None for those of ``chunks``."""
    seconds: float = 0.0
    """How long it took."""
    tokens: int = 0
    """What those models used of the budget, estimates included."""


Call: TypeAlias = Callable[[Mapping[str, Any], str], Awaitable[Outcome]]
"""Calls a tool with arguments; the text tells this call's steps from those of the agent's other calls.

Raises `pydantic.ValidationError` for arguments that do not fit, `RagflowLgError` if the call fails.
"""


class AgentTool(Struct, frozen=True):
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
    """Longest time of one attempt."""
    label: str = ""
    """What goes before an error that the model is told; ``""`` for nothing."""
    extra_attempts: int = 0
    """How often the call is tried again after an error."""
    retry_delay_s: float = 0.0
    names: tuple[str, ...] = ()
    """What policies know it by, the main name first: a component's name, ``mcp:ID/TOOL``. See `ToolPermits`."""
    asks_models: bool = False
    """Whether a call uses tokens of the budget."""
    runs_once: bool = False
    """Whether a call may never be begun twice."""
    configuration: Callable[[], JsonValue] | None = None
    """Gives all that a result depends on beside the arguments; None for a tool whose results are not remembered."""
