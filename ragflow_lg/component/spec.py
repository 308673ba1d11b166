"""What the compiler and the engine know of a component: `ComponentSpec`, and the models its parameters are made of.

Authors do not build a spec themselves: `ragflow_lg.component.decorator.component` and
`ragflow_lg.component.tool.tool` do. The type of the context is a parameter of the spec, because the context in turn
knows the plan, and the plan knows specs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from posixpath import normpath
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

from msgspec import Struct, field
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationInfo

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.forms import Form
from ragflow_lg.dsl.variable_references import Reference, Template, parse_argument, parse_template, scope_of

__all__ = [
    "AnySpec",
    "ArgumentOrValue",
    "CanvasName",
    "ComponentOutputs",
    "ComponentParams",
    "ComponentSpec",
    "Kind",
    "OneOrMany",
    "OptionalReference",
    "ReferenceEntry",
    "RegionRules",
    "Route",
    "ServerTool",
    "MessageAlternative",
    "TemplateOrValue",
    "ToolEntry",
    "ToolResult",
    "ToolRules",
]

Kind = Literal["entry", "plain", "model", "message", "route", "interrupt", "region", "region_item", "region_exit"]
"""What the engine must know of a component.

``entry`` opens a turn; ``model`` may stream into a Message; ``message`` shows text to the user; ``route``
chooses among declared targets; ``interrupt`` waits for the user; ``region`` owns a body that it repeats,
``region_item`` starts each round, ``region_exit`` leaves the region. Everything else is ``plain``.
"""


def _as_list(value: Any) -> Any:
    if value is None or value == "":
        return []
    return cast("list[Any]", value) if isinstance(value, list | tuple) else [value]


def _blank_as_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip("{} \t\r\n") else value


T = TypeVar("T")
OneOrMany: TypeAlias = Annotated[list[T], BeforeValidator(_as_list)]
"""A list; a single value stands for a list of one, null and ``""`` for the empty list."""


def _entry(value: Any) -> Any:
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        return held.get("value", held.get("input"))
    return value


def _entry_schema(schema: dict[str, Any]) -> None:
    schema.clear()
    schema.update(
        {"anyOf": [{"type": "string"}, {"type": "object"}], "description": "A reference, or {value: reference}."}
    )


ReferenceEntry: TypeAlias = Annotated[
    Reference,
    BeforeValidator(_entry),
    Field(json_schema_extra=_entry_schema),
]
"""A reference in a list; editors write ``{"value": ref}`` or ``{"input": ref}`` for it."""


def _template_if_text(value: Any, info: ValidationInfo) -> Any:
    return parse_template(value, scope_of(info)) if isinstance(value, str) else value


def _argument_if_text(value: Any, info: ValidationInfo) -> Any:
    return parse_argument(value, scope_of(info)) if isinstance(value, str) else value


def _text_if_template(value: Any) -> Any:
    return str(value) if isinstance(value, Template) else value


TemplateOrValue: TypeAlias = Annotated[
    Any, BeforeValidator(_template_if_text), PlainSerializer(_text_if_template, when_used="json")
]
"""Text that may hold references, or any other value as it is; `RunContext.resolve` reads both."""

ArgumentOrValue: TypeAlias = Annotated[
    Any, BeforeValidator(_argument_if_text), PlainSerializer(_text_if_template, when_used="json")
]
"""As `TemplateOrValue`, but a bare reference (``sys.query``) is one too: what a canvas sets of a tool's arguments."""

OptionalReference: TypeAlias = Annotated[Reference | None, BeforeValidator(_blank_as_none)]
"""A reference, or None where the canvas leaves it blank."""


class ComponentParams(BaseModel):
    """Parameters every component has. Unknown keys are kept: editors write keys of their own.

    Source of the defaults: RAGFlow's ``agent/component/base.py``.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True, arbitrary_types_allowed=True)

    description: str | None = ""
    """A note of the editor."""
    inputs: Any = Field(default_factory=dict)
    """What the editor shows as inputs; the form where the component has one."""
    outputs: Any = Field(default_factory=dict)
    """The outputs by name, as the editor declares them."""
    max_retries: Annotated[int, Field(ge=0, le=100)] | None = 0
    """How often a component that asks a model or a server tries again after an error."""
    delay_after_error: Annotated[float, Field(ge=0, le=3600)] | None = 2.0
    """Seconds before another try."""
    exception_method: str | None = Field(None, examples=["goto", "comment"])
    """What follows an error. With any method exception_goto comes first, then exception_default_value; without one the
    turn fails."""
    exception_default_value: Any = None
    """Stands for the outputs after an error."""
    exception_goto: OneOrMany[str] = Field(default_factory=list[str])
    """Ids of the components to go on with after an error."""


class ComponentOutputs(BaseModel):
    """What a component gives. Fields with defaults are outputs that always exist; others may be added."""

    model_config = ConfigDict(extra="allow", defer_build=True, arbitrary_types_allowed=True)


C = TypeVar("C")
P = TypeVar("P", bound=ComponentParams)


class Route(NamedTuple):
    """One way out of a ``route`` component. ``label`` is shown at the edge of a drawing."""

    label: str
    targets: tuple[str, ...]
    path: tuple[str | int, ...] = ()
    """Where the targets stand, from the component's params, for diagnostics."""


class MessageAlternative(NamedTuple):
    """One alternative text of a ``message`` component. ``is_live``: its pieces are sent as they become known."""

    template: Template
    is_live: bool


def _asks_nothing(ctx: Any, params: Any) -> Form | None:
    return None


def _no_routes(params: Any) -> Iterable[Route]:
    return ()


def _no_findings(params: Any) -> Iterable[Finding]:
    return ()


def _no_names(params: Any) -> Iterable[str]:
    return ()


def _writes_nothing(params: Any) -> Iterable[Reference]:
    return ()


def _never(params: Any) -> bool:
    return False


def _shows_nothing(params: Any) -> Iterable[MessageAlternative]:
    return ()


def _collects_nothing(params: Any) -> Mapping[str, Reference]:
    return {}


def _no_limit(params: Any) -> int | None:
    return None


def _no_reference(params: Any) -> Reference | None:
    return None


def _no_tools(params: Any) -> Sequence[ToolEntry]:
    return ()


def _no_server_tools(params: Any) -> Sequence[ServerTool]:
    return ()


def _no_rule(params: Any) -> Sequence[str] | None:
    return None


def _no_name(params: Any) -> str:
    return ""


def _one(params: Any) -> int:
    return 1


class CanvasName(NamedTuple):
    """A canvas as another one names it: by its ``name`` in the settings, or by its ``path`` from there."""

    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        return self.name or f"./{normpath(self.path)}"


class ToolEntry(NamedTuple):
    """A tool that a component declares in its params."""

    component: str
    name: str
    params: Mapping[str, Any]
    path: tuple[str | int, ...]
    """Where it stands, from the component's params, for diagnostics."""


class ServerTool(NamedTuple):
    """A tool of a server of the settings that a component declares in its params."""

    server: str
    tool: str
    path: tuple[str | int, ...]
    """Where the tool stands, from the component's params, for diagnostics."""
    server_path: tuple[str | int, ...]
    """Where the server's id stands."""


class ToolResult(Struct, frozen=True):
    """What a tool gives: ``value`` to the model that called it, ``outputs`` to the canvas, ``chunks`` to cite.

    ``artifacts`` are files that it made, ``{name, url, mime_type, size}`` each; an agent shows them below its answer.
    ``documents`` are those of all that was found, ``{doc_name, doc_id, count}`` each; None for those of ``chunks``.
    """

    value: JsonValue
    outputs: Mapping[str, JsonValue] = field(default_factory=dict[str, Any])
    chunks: Sequence[Mapping[str, JsonValue]] = ()
    artifacts: Sequence[Mapping[str, JsonValue]] = ()
    documents: Sequence[Mapping[str, JsonValue]] | None = None


class ToolRules(Generic[C, P], Struct, frozen=True):
    """How a component is called by a model."""

    function: str
    """Name of the function; ``""`` for the name that the canvas gives the tool."""
    arguments: type[BaseModel]
    """What the model gives; its JSON schema is what the model is shown."""
    call: Callable[[C, P, Any], Awaitable[ToolResult]]
    needs: str = ""
    """The argument without which nothing is done; the model is told that it is required."""
    canvas_arguments: tuple[str, ...] = ()
    """Arguments that the canvas sets where the model leaves them out."""
    label: str = ""
    """What goes before an error that the model is told; ``""`` for nothing."""
    read_name: Callable[[P], str] = _no_name
    """The name of the function that the canvas sets, ``""`` for none."""


class RegionRules(Generic[C, P], Struct, frozen=True):
    """How a component of kind ``region`` repeats its body. Its ``run`` gives its outputs as they are at entry."""

    items: Callable[[C, P], Sequence[JsonValue] | None]
    """The items to go through, one a round, or None; pure, since it is asked again when a run goes on.

    Raises ComponentError where there is no list.
    """
    has_next_round: Callable[[C, P], bool]
    """Whether another round begins; ``ctx.round`` tells which one it would be."""
    collects: Callable[[P], Mapping[str, Reference]] = _collects_nothing
    """Outputs that become lists: the value of each reference at the end of each round, by output name."""
    max_rounds: Callable[[P], int | None] = _no_limit
    """Most rounds that the params allow, None where the items decide."""
    max_concurrency: Callable[[P], int] = _one
    """How many rounds may run at the same time."""
    list_reference: Callable[[P], Reference | None] = _no_reference
    """What has to be a list, or the node fails; the compiler tells of what surely is none."""
    accepts_single: Callable[[P], bool] = _never
    """Whether any value but an empty one is a list of one there."""
    leaves_at_exit: bool = False
    """Whether an ExitLoop leaves the region; else it only ends the round."""


class ComponentSpec(Generic[C, P], Struct, frozen=True, eq=False):
    """Everything the compiler and the engine know of a component."""

    name: str
    """Name in the DSL, in RAGFlow's spelling; look-up ignores case."""
    kind: Kind
    params: type[P]
    outputs: type[ComponentOutputs]
    run: Callable[[C, P], Awaitable[ComponentOutputs]]
    description: str
    source: str
    """RAGFlow file whose behaviour this follows."""
    aliases: tuple[str, ...] = ()
    timeout_s: float | Callable[[P], float | None] | None = 600.0
    """Longest time a node may take, in seconds; None for no limit."""
    shows_default: bool = False
    """Whether a failure shows ``exception_default_value`` as a message, with the method ``comment`` too."""
    retries: bool = False
    """Whether ``max_retries`` repeats ``run`` after an error (never after a shown delta)."""
    routes: Callable[[P], Iterable[Route]] = _no_routes
    """Declared ways out, for kind ``route``."""
    lint: Callable[[P], Iterable[Finding]] = _no_findings
    """Checks beyond the params model."""
    output_names: Callable[[P], Iterable[str] | None] = _no_names
    """Outputs that depend on the params, beyond the outputs model and the DSL's own list; None for any."""
    writes: Callable[[P], Iterable[Reference]] = _writes_nothing
    """Globals, and outputs of other nodes, that the component assigns."""
    rewrite: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Brings params written in an older or simplified shape into today's form; pure."""
    streams: Callable[[P], bool] = _never
    """For kind ``model``: whether these params let its output ``content`` stream into a Message."""
    shows: Callable[[P], Iterable[MessageAlternative]] = _shows_nothing
    """For kind ``message``: the alternative texts, one of which it shows at each visit."""
    runs_once: bool = False
    """Whether the node may never be begun twice: should a run go on where it was interrupted, the user is asked."""
    region: RegionRules[C, P] | None = None
    """For kind ``region``: how it repeats its body."""
    tool: ToolRules[C, P] | None = None
    """How a model calls it, if it can."""
    tools: Callable[[P], Sequence[ToolEntry]] = _no_tools
    """The tools that its own model may call."""
    allowed_tools: Callable[[P], Sequence[str] | None] = _no_rule
    """Names and patterns of the tools that its own model may call at most; None for all."""
    server_tools: Callable[[P], Iterable[ServerTool]] = _no_server_tools
    """The tools of servers that its own model may call."""
    plays: Callable[[P], CanvasName] | None = None
    """The canvas that it plays within itself, if it plays one."""
    asks: Callable[[C, P], Form | None] = _asks_nothing
    """For kind ``interrupt``: what to ask the user before ``run``; None to go on without asking. Pure."""
    is_ready: bool = True
    """False while the component is known to the compiler but cannot run yet."""

    def limit_s(self, params: P) -> float | None:
        """Give the time limit of a node with these params, in seconds."""
        return self.timeout_s(params) if callable(self.timeout_s) else self.timeout_s


AnySpec: TypeAlias = ComponentSpec[Any, Any]
"""The spec of some component, as the compiler and the engine pass it on."""
