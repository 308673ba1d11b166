"""The compiler's and the engine's view of a component: `ComponentSpec`, and the types of its parameters.

Authors do not build a spec themselves; they use `ragflow_lg.component.decorator.component` and
`ragflow_lg.component.tool.tool`. The type of the context is a type parameter of the spec, because the context depends
on the plan, and the plan on specs.
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

Kind = Literal["entry", "plain", "model", "message", "route", "interrupt", "region", "region_item", "region_exit"]
"""The category of a component.

``entry`` opens a turn; ``model`` may stream into a Message; ``message`` shows text to the user; ``route``
chooses among declared targets; ``interrupt`` waits for the user; ``region`` owns a body that it repeats,
``region_item`` starts each round, ``region_exit`` leaves the region. Everything else is ``plain``."""


def _as_list(value: Any) -> Any:
    if value is None or value == "":
        return []
    return cast("list[Any]", value) if isinstance(value, list | tuple) else [value]


def _blank_as_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip("{} \t\r\n") else value


T = TypeVar("T")
OneOrMany: TypeAlias = Annotated[list[T], BeforeValidator(_as_list)]
"""A list; a single value becomes a list of one, null and ``""`` the empty list."""


def _entry(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return fields.get("value", fields.get("input"))
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
"""A reference in a list; editors also write ``{"value": ref}`` or ``{"input": ref}``."""


def _template_if_text(value: Any, info: ValidationInfo) -> Any:
    return parse_template(value, scope_of(info)) if isinstance(value, str) else value


def _argument_if_text(value: Any, info: ValidationInfo) -> Any:
    return parse_argument(value, scope_of(info)) if isinstance(value, str) else value


def _text_if_template(value: Any) -> Any:
    return str(value) if isinstance(value, Template) else value


TemplateOrValue: TypeAlias = Annotated[
    Any, BeforeValidator(_template_if_text), PlainSerializer(_text_if_template, when_used="json")
]
"""Text that may contain references, or any other value unchanged; `RunContext.resolve` reads both."""

ArgumentOrValue: TypeAlias = Annotated[
    Any, BeforeValidator(_argument_if_text), PlainSerializer(_text_if_template, when_used="json")
]
"""Like `TemplateOrValue`, but also accepts a bare reference (``sys.query``): a tool argument that a canvas sets."""

OptionalReference: TypeAlias = Annotated[Reference | None, BeforeValidator(_blank_as_none)]
"""A reference, or None if the canvas leaves it blank."""


class ComponentParams(BaseModel):
    """The parameters of every component. Unknown keys are preserved: editors add keys of their own.

    Source of the defaults: RAGFlow's ``agent/component/base.py``.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True, arbitrary_types_allowed=True)

    description: str | None = ""
    """A note in the editor."""
    inputs: Any = Field(default_factory=dict)
    """The inputs in the editor; the form of a component with a form."""
    outputs: Any = Field(default_factory=dict)
    """The outputs by name, as the editor declares them."""
    max_retries: Annotated[int, Field(ge=0, le=100)] | None = 0
    """The number of further attempts of a component that calls a model or a server after an error."""
    delay_after_error: Annotated[float, Field(ge=0, le=3600)] | None = 2.0
    """Seconds before the next attempt."""
    exception_method: str | None = Field(default=None, examples=["goto", "comment"])
    """The reaction to an error. With any method, exception_goto takes precedence over exception_default_value;
    without one the turn fails."""
    exception_default_value: Any = None
    """Replaces the outputs after an error."""
    exception_goto: OneOrMany[str] = Field(default_factory=list[str])
    """Ids of the components that run after an error."""


class ComponentOutputs(BaseModel):
    """The outputs of a component. Fields with defaults always exist; others may be added."""

    model_config = ConfigDict(extra="allow", defer_build=True, arbitrary_types_allowed=True)


C = TypeVar("C")
P = TypeVar("P", bound=ComponentParams)


class Route(NamedTuple):
    """One exit of a ``route`` component. ``label`` is shown at the edge in a drawing."""

    label: str
    targets: tuple[str, ...]
    path: tuple[str | int, ...] = ()
    """Location of the targets in the component's params, for diagnostics."""


class MessageAlternative(NamedTuple):
    """One alternative text of a ``message`` component. ``is_live``: its pieces are sent as soon as they are known."""

    template: Template
    is_live: bool


# The defaults of optional callables


def _empty(*_: Any) -> tuple[()]:
    return ()


def _no_fields(*_: Any) -> Mapping[str, Reference]:
    return {}


def _none(*_: Any) -> None:
    return None


def _false(*_: Any) -> bool:
    return False


def _no_text(*_: Any) -> str:
    return ""


def _one(*_: Any) -> int:
    return 1


class CanvasName(NamedTuple):
    """A reference to another canvas: its ``name`` in the settings, or its ``path`` relative to the referring canvas."""

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
    """Its location in the component's params, for diagnostics."""


class ServerTool(NamedTuple):
    """A tool of a configured server that a component declares in its params."""

    server: str
    tool: str
    path: tuple[str | int, ...]
    """Location of the tool in the component's params, for diagnostics."""
    server_path: tuple[str | int, ...]
    """Location of the server's id."""


class ToolResult(Struct, frozen=True):
    """The result of a tool: ``value`` for the model that called it, ``outputs`` for the canvas, ``chunks`` to cite.

    ``artifacts`` are files that it created, ``{name, url, mime_type, size}`` each; an agent lists them below its
    answer. ``documents`` are those of all matches, ``{doc_name, doc_id, count}`` each; None for those of ``chunks``.
    """

    value: JsonValue
    outputs: Mapping[str, JsonValue] = field(default_factory=dict[str, Any])
    chunks: Sequence[Mapping[str, JsonValue]] = ()
    artifacts: Sequence[Mapping[str, JsonValue]] = ()
    documents: Sequence[Mapping[str, JsonValue]] | None = None


class ToolRules(Generic[C, P], Struct, frozen=True):
    """How a model calls a component."""

    function: str
    """Name of the function; ``""`` for the name that the canvas gives the tool."""
    arguments: type[BaseModel]
    """The arguments for the model, who sees their JSON schema."""
    call: Callable[[C, P, Any], Awaitable[ToolResult]]
    needs: str = ""
    """The required argument; the model's schema marks it as required."""
    canvas_arguments: tuple[str, ...] = ()
    """Arguments that the canvas sets if the model omits them."""
    label: str = ""
    """A prefix of error messages for the model; ``""`` for none."""
    read_name: Callable[[P], str] = _no_text
    """Returns the name of the function that the canvas sets, ``""`` for none."""


class RegionRules(Generic[C, P], Struct, frozen=True):
    """How a component of kind ``region`` repeats its body. Its ``run`` returns its outputs at entry."""

    items: Callable[[C, P], Sequence[JsonValue] | None]
    """The items of the rounds, or None; pure, because it is called again when a run resumes.

    Raises ComponentError if the value is not a list."""
    has_next_round: Callable[[C, P], bool]
    """Whether another round starts; ``ctx.round`` is that round."""
    collects: Callable[[P], Mapping[str, Reference]] = _no_fields
    """Outputs that become lists: the value of each reference at the end of each round, by output name."""
    max_rounds: Callable[[P], int | None] = _none
    """Maximum number of rounds that the params allow, None if the items decide."""
    max_concurrency: Callable[[P], int] = _one
    """Maximum number of rounds that run in parallel."""
    list_reference: Callable[[P], Reference | None] = _none
    """A value that must be a list, else the node fails; the compiler reports values that cannot be one."""
    accepts_single: Callable[[P], bool] = _false
    """Whether any value other than an empty one counts there as a list of one."""
    leaves_at_exit: bool = False
    """Whether an ExitLoop leaves the region; else it only ends the round."""


class ComponentSpec(Generic[C, P], Struct, frozen=True, eq=False):
    """All facts about a component for the compiler and the engine."""

    name: str
    """Name in the DSL, in RAGFlow's spelling; lookup ignores case."""
    kind: Kind
    params: type[P]
    outputs: type[ComponentOutputs]
    run: Callable[[C, P], Awaitable[ComponentOutputs]]
    description: str
    source: str
    """The RAGFlow file whose behaviour the component follows."""
    aliases: tuple[str, ...] = ()
    timeout_s: float | Callable[[P], float | None] | None = 600.0
    """Time limit of a node in seconds; None for no limit."""
    shows_default: bool = False
    """Whether a failure shows ``exception_default_value`` as a message, also with the method ``comment``."""
    retries: bool = False
    """Whether ``max_retries`` repeats ``run`` after an error (never after a delta was shown)."""
    routes: Callable[[P], Iterable[Route]] = _empty
    """Declared exits, for kind ``route``."""
    lint: Callable[[P], Iterable[Finding]] = _empty
    """Checks beyond the params model."""
    output_names: Callable[[P], Iterable[str] | None] = _empty
    """Outputs that depend on the params, in addition to the outputs model and the DSL's own list; None for any."""
    writes: Callable[[P], Iterable[Reference]] = _empty
    """Globals, and outputs of other nodes, that the component assigns."""
    rewrite: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Converts params from an older or simplified form to the current one; pure."""
    streams: Callable[[P], bool] = _false
    """For kind ``model``: whether its output ``content`` may stream into a Message with these params."""
    shows: Callable[[P], Iterable[MessageAlternative]] = _empty
    """For kind ``message``: the alternative texts, one of which it shows in each visit."""
    runs_once: bool = False
    """Whether the node must never start twice: if a run resumes after it was interrupted, the user is asked."""
    region: RegionRules[C, P] | None = None
    """For kind ``region``: how it repeats its body."""
    tool: ToolRules[C, P] | None = None
    """How a model calls it, if it can."""
    tools: Callable[[P], Sequence[ToolEntry]] = _empty
    """The tools of its own model."""
    allowed_tools: Callable[[P], Sequence[str] | None] = _none
    """Names and patterns of the tools that its own model may call; None for all."""
    server_tools: Callable[[P], Iterable[ServerTool]] = _empty
    """The server tools of its own model."""
    plays: Callable[[P], CanvasName] | None = None
    """The canvas that it runs, if any."""
    asks: Callable[[C, P], Form | None] = _none
    """For kind ``interrupt``: the form for the user before ``run``; None to continue without one. Pure."""
    is_ready: bool = True
    """False if the compiler knows the component but it cannot run yet."""

    def limit_s(self, params: P) -> float | None:
        """Return the time limit of a node with these params, in seconds."""
        return self.timeout_s(params) if callable(self.timeout_s) else self.timeout_s


AnySpec: TypeAlias = ComponentSpec[Any, Any]
"""The spec of any component."""
