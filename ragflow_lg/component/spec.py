"""A component as seen by the compiler and the engine: `ComponentSpec`, and the types of its parameters.

Authors do not build a spec themselves; they use `ragflow_lg.component.decorator.component` and
`ragflow_lg.component.tool.tool`. The type of the context is a type parameter of the spec, because the context depends
on the plan, which in turn depends on specs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from posixpath import normpath
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

from msgspec import Struct, field
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.forms import Form
from ragflow_lg.dsl.value_types import ExpectedType, Schema
from ragflow_lg.dsl.variable_references import Reference, Template, parse_argument, parse_template, scope_of

Kind = Literal["entry", "plain", "model", "message", "route", "interrupt", "region", "region_item", "region_exit"]
"""The category of a component.

``entry`` opens a turn; ``model`` may stream into a Message; ``message`` shows text to the user; ``route`` chooses among
declared targets; ``interrupt`` waits for the user; ``region`` owns a body that it repeats, ``region_item`` starts each
round, ``region_exit`` leaves the region. All other components are ``plain``."""

Effects = Literal["none", "reads", "pays", "writes"]
"""What running a component again costs or changes outside the run.

``none``: nothing, and with the same inputs it returns the same outputs. ``reads``: nothing, but another answer is
possible, as from a database. ``pays``: money or much time, as for a model, a search or a computation. ``writes``: it
changes something, as a request that is not a GET."""


def _as_list(value: Any) -> Any:
    if value is None or value == "":
        return []
    return cast("list[Any]", value) if isinstance(value, list | tuple) else [value]


T = TypeVar("T")
OneOrMany: TypeAlias = Annotated[list[T], BeforeValidator(_as_list)]
"""A list. A single value becomes a list with one item; null and ``""`` become an empty list."""


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


ReferenceEntry: TypeAlias = Annotated[Reference, BeforeValidator(_entry), Field(json_schema_extra=_entry_schema)]
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
"""Like `TemplateOrValue`, but also accepts a bare reference (``sys.query``), for tool arguments in a canvas."""

OptionalReference: TypeAlias = Annotated[
    Reference | None,
    BeforeValidator(lambda value: None if isinstance(value, str) and not value.strip("{} \t\r\n") else value),
]
"""A reference, or None if it is blank in the canvas."""


def default_unless_read(
    model: type[BaseModel], value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo, *, is_read: bool
) -> Any:
    """Validate a field; an invalid one that nothing reads gets its default, because RAGFlow ignores it as well."""
    try:
        return handler(value)
    except ValidationError:
        if is_read or info.field_name is None:
            raise
        return model.model_fields[info.field_name].get_default(call_default_factory=True)


class ComponentParams(BaseModel):
    """The parameters of every component. Unknown keys are preserved, because editors add their own keys.

    Source of the defaults: RAGFlow's ``agent/component/base.py``.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True, arbitrary_types_allowed=True)

    description: str | None = ""
    """A note in the editor."""
    inputs: Any = Field(default_factory=dict)
    """The inputs in the editor, or the form's fields if the component has a form."""
    outputs: Any = Field(default_factory=dict)
    """The outputs by name, as declared in the editor."""
    max_retries: Annotated[int, Field(ge=0, le=100)] | None = 0
    """The number of retries after an error, for components that call a model or a server."""
    delay_after_error: Annotated[float, Field(ge=0, le=3600)] | None = 2.0
    """Seconds before the next attempt."""
    exception_method: str | None = Field(default=None, examples=["goto", "comment"])
    """The reaction to an error. If it is set, exception_goto takes precedence over exception_default_value; otherwise
    the turn fails."""
    exception_default_value: Any = None
    """Replaces the outputs after an error."""
    exception_goto: OneOrMany[str] = Field(default_factory=list[str])
    """The ids of the components that run after an error."""


class OnceParams(ComponentParams):
    """The parameters of a component with an effect outside the run."""

    once_only: bool | None = None
    """Whether a crash while it runs makes the run ask before it starts again. Default: if it may change something."""


class ComponentOutputs(BaseModel):
    """The outputs of a component. Fields with defaults are always present; others may be added."""

    model_config = ConfigDict(extra="allow", defer_build=True, arbitrary_types_allowed=True)

    declared_by_default: ClassVar[frozenset[str]] = frozenset()
    """The outputs that are null until the node has run if the canvas declares none, as in RAGFlow's component."""


C = TypeVar("C")
P = TypeVar("P", bound=ComponentParams)


class Route(NamedTuple):
    """One exit of a ``route`` component. ``label`` is shown next to the edge in drawings."""

    label: str
    targets: tuple[str, ...]
    path: tuple[str | int, ...] = ()
    """The location of the targets in the component's params, for diagnostics."""


class MessageAlternative(NamedTuple):
    """One alternative text for a ``message`` component. ``is_live``: its pieces are sent as soon as they are known."""

    template: Template
    is_live: bool


class CanvasName(NamedTuple):
    """A reference to another canvas: its ``name`` in the settings, or its ``path`` relative to the referring canvas."""

    name: str = ""
    path: str = ""
    key: str = ""
    """The parameter that contains the name or path; ``""`` for ``canvas`` or ``path``."""

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
    """The tool's location in the component's params, for diagnostics."""
    server_path: tuple[str | int, ...]
    """The location of the server's id."""


class Requirement(NamedTuple):
    """Something in the settings that a component needs: a model, a dataset, a memory, a key, an account."""

    kind: str
    """``model``, ``dataset``, ``memory``, ``reranker``, ``key``, ``speech``, ``search_option``, or a
    kind of an integration."""
    name: str
    """The id of the model or dataset, as in the canvas, or the name of the service or option.

    ``""`` is the default model.
    """
    path: tuple[str | int, ...] = ()
    """Its location in the component's params, for diagnostics."""


class PromptText(NamedTuple):
    """Text from the params that every request to the component's model contains, apart from the values in it."""

    text: str
    path: tuple[str | int, ...] = ()
    """Its location in the component's params, for diagnostics."""
    is_sent_by_tool: bool = True
    """Whether it is also sent if an agent calls the component as a tool."""


class ToolService(NamedTuple):
    """The service that a tool calls, as documented by ``ragflow-lg components NAME``."""

    name: str
    """The name in error messages."""
    section: str
    """The section ``[tools.SECTION]`` of the settings."""
    address: str
    """The default endpoint, or ``""`` if the service has no fixed address."""
    key: Literal["none", "optional", "required"] = "none"
    key_param: str = "api_key"
    """The canvas parameter that can also contain the key."""

    def required_key(self, canvas_key: Any) -> Sequence[Requirement]:
        """Return the key as a requirement, unless it is optional or the canvas sets it."""
        is_set = self.key != "required" or bool(key_in_canvas(canvas_key))
        return () if is_set else (Requirement("key", self.section),)


class ToolExample(NamedTuple):
    """How ``ragflow-lg components NAME`` shows the use of a tool without a service in [tools]."""

    settings: str = ""
    """What the settings contain for it."""
    params: Mapping[str, JsonValue] = MappingProxyType({})
    """The params of a tool and of a node."""
    node_params: Mapping[str, JsonValue] | None = None
    """Further params of a node; by default, the argument that the tool needs is the user's query."""


def key_in_canvas(value: Any) -> str:
    """Return a key from the canvas, or ``""`` if there is none; RAGFlow's editor stores ``xxx`` for a missing key.

    >>> key_in_canvas(" k "), key_in_canvas("xxx"), key_in_canvas(None)
    ('k', '', '')
    """
    text = value.strip() if isinstance(value, str) else ""
    return "" if text == "xxx" else text


class ToolResult(Struct, frozen=True):
    """The result of a tool: ``value`` for the model that called it, ``outputs`` for the canvas, ``chunks`` to cite.

    ``artifacts`` are the files that it created, as ``{name, url, mime_type, size}`` maps; an agent lists them below its
    answer. ``documents`` are the documents of all matches, as ``{doc_name, doc_id, count}`` maps; None means the
    documents of ``chunks``.
    """

    value: JsonValue
    outputs: Mapping[str, JsonValue] = field(default_factory=dict[str, Any])
    chunks: Sequence[Mapping[str, JsonValue]] = ()
    artifacts: Sequence[Mapping[str, JsonValue]] = ()
    documents: Sequence[Mapping[str, JsonValue]] | None = None


class ToolRules(Generic[C, P], Struct, frozen=True):
    """How a model calls a component."""

    function: str
    """The function name; ``""`` to use the tool's name in the canvas."""
    arguments: type[BaseModel]
    """The arguments that the model provides; it sees their JSON schema."""
    call: Callable[[C, P, Any], Awaitable[ToolResult]]
    needs: str = ""
    """The required argument, which the model's schema marks as required."""
    canvas_arguments: tuple[str, ...] = ()
    """Arguments that the canvas sets if the model omits them."""
    label: str = ""
    """A prefix of error messages for the model; ``""`` for none."""
    read_name: Callable[[P], str] = lambda _: ""
    """Returns the function name that the canvas sets, or ``""`` if it sets none."""
    service: ToolService | None = None
    """The service that it calls, if any."""


class RegionRules(Generic[C, P], Struct, frozen=True):
    """How a component of kind ``region`` repeats its body. Its ``run`` function returns its outputs on entry."""

    items: Callable[[C, P], Sequence[JsonValue] | None]
    """Returns the items for the rounds, or None. It must be pure, because it is called again when a run resumes.

    Raises ComponentError if the value is not a list."""
    has_next_round: Callable[[C, P], bool]
    """Returns whether another round starts; ``ctx.round`` is that round."""
    collects: Callable[[P], Mapping[str, Reference]] = lambda _: {}
    """Outputs that become lists: the value of each reference at the end of each round, by output name."""
    max_rounds: Callable[[P], int | None] = lambda _: None
    """Maximum number of rounds that the params allow, None if the items decide."""
    max_concurrency: Callable[[P], int] = lambda _: 1
    """Maximum number of rounds that run in parallel."""
    list_reference: Callable[[P], Reference | None] = lambda _: None
    """A value that must be a list, otherwise the node fails. The compiler reports values that cannot be lists."""
    accepts_single: Callable[[P], bool] = lambda _: False
    """Whether any non-empty value that is not a list is treated as a list with one item."""
    tests: Callable[[P], Iterable[Reference]] = lambda _: ()
    """The values that decide whether another round starts; a variable of the region itself is an alias."""
    keeps_values: bool = False
    """Whether a body node that does not run in a round keeps its outputs of an earlier round."""
    leaves_at_exit: bool = False
    """Whether an ExitLoop leaves the region; otherwise it only ends the round."""


class ComponentSpec(Generic[C, P], Struct, frozen=True, eq=False):
    """All the information about a component that the compiler and the engine need."""

    name: str
    """The name in the DSL, in RAGFlow's spelling; lookup ignores case."""
    kind: Kind
    params: type[P]
    outputs: type[ComponentOutputs]
    run: Callable[[C, P], Awaitable[ComponentOutputs]]
    description: str
    source: str
    """The RAGFlow file on whose behaviour the component is based."""
    aliases: tuple[str, ...] = ()
    unused: frozenset[str] = frozenset()
    """Parameters that RAGFlow or its editor stores with this component, although they have no effect."""
    timeout_s: float | Callable[[P], float | None] | None = 600.0
    """The time limit for a node in seconds; None for no limit."""
    shows_default: bool = False
    """Whether ``exception_default_value`` is shown as a message after a failure, even if the method is ``comment``."""
    retries: bool = False
    """Whether ``run`` is repeated up to ``max_retries`` times after an error (but never after a delta was shown)."""
    routes: Callable[[P], Iterable[Route]] = lambda _: ()
    """The declared exits, for kind ``route``."""
    lint: Callable[[P], Iterable[Finding]] = lambda _: ()
    """Additional checks that the params model does not cover."""
    differences: Callable[[P], Iterable[Finding]] = lambda _: ()
    """Differences from RAGFlow that matter with these params, with codes of `ragflow_lg.dsl.compatibility.OPTIONS`."""
    output_names: Callable[[P], Iterable[str] | None] = lambda _: ()
    """Outputs that depend on the params, in addition to the outputs model and the DSL's list; None for any output."""
    output_schemas: Callable[[P], Mapping[str, Schema]] = lambda _: {}
    """JSON schemas of outputs that depend on the params."""
    expects: Callable[[P], Iterable[ExpectedType]] = lambda _: ()
    """The types that referenced values need to have."""
    model_calls: Callable[[P], int] = lambda _: 0
    """The largest number of model calls each time it runs, without retries after errors."""
    writes: Callable[[P], Iterable[Reference]] = lambda _: ()
    """Globals and outputs of other nodes that the component assigns."""
    rewrite: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """A pure function that converts params from an older or simplified form to the current one."""
    streams: Callable[[P], bool] = lambda _: False
    """For kind ``model``: whether its output ``content`` may stream into a Message with these params."""
    shows: Callable[[P], Iterable[MessageAlternative]] = lambda _: ()
    """For kind ``message``: the alternative texts, one of which is shown each time it runs."""
    effects: Effects | Callable[[C, P], Effects] = "pays"
    """What running it again would cost or change.

    Nodes without effects that follow each other alone share a stored step of a session. One that ``writes`` never
    starts twice: if a run resumes after it was interrupted, the user is asked. If it always does, it has no retries
    either. A function decides by the params and the settings; retries that the canvas asks for then remain, because
    they follow an error that was reported."""
    region: RegionRules[C, P] | None = None
    """For kind ``region``: how it repeats its body."""
    tool: ToolRules[C, P] | None = None
    """How a model calls it, if it can."""
    tools: Callable[[P], Sequence[ToolEntry]] = lambda _: ()
    """The tools for its own model."""
    allowed_tools: Callable[[P], Sequence[str] | None] = lambda _: None
    """The names and patterns of tools that its own model may call; None for all."""
    ask_tools: Callable[[P], Sequence[str]] = lambda _: ()
    """The names and patterns of tools that its own model may call only after the user has approved the call."""
    server_tools: Callable[[P], Iterable[ServerTool]] = lambda _: ()
    """The server tools for its own model."""
    requires: Callable[[P], Iterable[Requirement]] = lambda _: ()
    """What it needs from the settings."""
    prompt_texts: Callable[[P], Iterable[PromptText]] = lambda _: ()
    """What its model is always sent, except for the values of references."""
    example: ToolExample = ToolExample()
    """How a canvas uses it, if it is a tool for which the settings have a section of its own."""
    plays: Callable[[P], CanvasName] | None = None
    """The canvas that it runs, if any."""
    asks: Callable[[C, P], Form | None] = lambda ctx, params: None
    """For kind ``interrupt``: a pure function that returns the form to show before ``run``, or None for no form."""

    def must_run_once(self, ctx: C, params: P) -> bool:
        """Return whether a node with these params must not start twice; ``once_only`` overrides the default."""
        chosen = params.once_only if isinstance(params, OnceParams) else None
        return self.effects_of(ctx, params) == "writes" if chosen is None else chosen

    def effects_of(self, ctx: C, params: P) -> Effects:
        """Return the effects of a node with these params."""
        return self.effects(ctx, params) if callable(self.effects) else self.effects

    @property
    def yields_items(self) -> bool:
        """Whether it is a region in which each round gets one item from a list."""
        return self.kind == "region" and "items_ref" in self.params.model_fields

    def limit_s(self, params: P) -> float | None:
        """Return the time limit for a node with these params, in seconds."""
        return self.timeout_s(params) if callable(self.timeout_s) else self.timeout_s


AnySpec: TypeAlias = ComponentSpec[Any, Any]
"""A spec for any component."""
