"""A tool as an agent sees it, whatever implements it: a component, another agent or a tool of an MCP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.spec import Effects
from ragflow_lg.services.chat import Usage

SEARCH_ARGUMENTS = ("query", "q", "question", "keyword", "keywords", "search_query")
"""Names of the argument that receives the query of a search tool."""


class Outcome(NamedTuple):
    """The outcome of one call. Every field except ``usage`` is JSON."""

    value: JsonValue
    """The result for the model; a string if ``is_error``."""
    is_error: bool = False
    chunks: Sequence[Mapping[str, JsonValue]] = ()
    """Chunks that later answers may cite."""
    usage: Usage = Usage()
    """Usage of the models that the tool called."""
    artifacts: Sequence[Mapping[str, JsonValue]] = ()
    """Files that the tool created: ``{name, url, mime_type, size}`` each."""
    documents: Sequence[Mapping[str, JsonValue]] | None = None
    """The documents that were found, or None to derive them from ``chunks``."""
    seconds: float = 0.0
    """Duration of the call."""
    tokens: int = 0
    """Tokens that the tool's models used from the budget, including estimates."""


Call: TypeAlias = Callable[[Mapping[str, Any], str], Awaitable[Outcome]]
"""Call a tool with arguments; the string distinguishes this call's steps from the steps of the agent's other calls.

Raises `pydantic.ValidationError` for invalid arguments and `RagflowLgError` if the call fails.
"""


class AgentTool(Struct, frozen=True):
    """One tool of an agent."""

    name: str
    """Function name before it is numbered."""
    title: str
    """Display name."""
    description: str
    parameters: Mapping[str, Any]
    """JSON schema for the arguments, which must describe an object."""
    call: Call
    check: Call | None = None
    """Only checks the arguments, before a user is asked about the call."""
    timeout_s: float | None = None
    """Time limit for one attempt."""
    label: str = ""
    """Prefix of errors that the model sees; ``""`` for none."""
    extra_attempts: int = 0
    """Number of retries after an error."""
    retry_delay_s: float = 0.0
    names: tuple[str, ...] = ()
    """Names that policies match, main name first: a component's name or ``mcp:ID/TOOL``. See `ToolPermits`."""
    asks_models: bool = False
    """Whether a call uses tokens from the budget."""
    runs_once: bool = False
    """Whether a call must never be started twice."""
    effects: Effects = "writes"
    """What a call may change, for the policies."""
    needs_approval: bool = False
    """Whether the user must approve each call."""
    default: JsonValue = None
    """The result of a call that failed; None to report the error to the model."""
    configuration: Callable[[], JsonValue] | None = None
    """Returns everything that a result depends on, except the arguments; None if results are never cached."""
    search_argument: str = ""
    """The argument that receives the query, if the tool searches for a text; ``""`` for other tools."""
    returns_chunks: bool = True
    """Whether a search that found something returns chunks; otherwise its whole result is what it found."""
