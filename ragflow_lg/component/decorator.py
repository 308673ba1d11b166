"""The decorator that turns a function into a component.

A component is one file with a params model, an outputs model and one function::

    class Params(ComponentParams):
        name: Template

    class Outputs(ComponentOutputs):
        greeting: str = ""

    @component("Greeter", params=Params, outputs=Outputs, description="Greet somebody.")
    async def greeter(ctx: RunContext, params: Params) -> Outputs:
        return Outputs(greeting=f"Hello {ctx.text(params.name)}")

The decorator accepts the models and all options as typed arguments, so that a type checker compares them with the
function and reports a misspelt option on the line where it occurs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from typing_extensions import TypedDict, Unpack

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.component.spec import (
    CanvasName,
    ComponentOutputs,
    ComponentParams,
    ComponentSpec,
    Effects,
    Kind,
    MessageAlternative,
    PromptText,
    RegionRules,
    Requirement,
    Route,
    ServerTool,
    ToolEntry,
    ToolExample,
    ToolRules,
)
from ragflow_lg.dsl.forms import Form
from ragflow_lg.dsl.value_types import ExpectedType, Schema
from ragflow_lg.dsl.variable_references import Reference

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext as RunContext
else:
    RunContext = Any
    """For annotations: ``ragflow-lg check`` imports every component, and must not load asyncio."""

P = TypeVar("P", bound=ComponentParams)
O = TypeVar("O", bound=ComponentOutputs, covariant=True)  # noqa: E741 - the usual letter for outputs


class SharedOptions(TypedDict, Generic[P], total=False):
    """Optional fields of `ragflow_lg.component.spec.ComponentSpec` for both components and tools."""

    aliases: tuple[str, ...]
    unused: frozenset[str]
    timeout_s: float | Callable[[P], float | None] | None
    shows_default: bool
    retries: bool
    routes: Callable[[P], Iterable[Route]]
    lint: Callable[[P], Iterable[Finding]]
    differences: Callable[[P], Iterable[Finding]]
    output_names: Callable[[P], Iterable[str] | None]
    output_schemas: Callable[[P], Mapping[str, Schema]]
    expects: Callable[[P], Iterable[ExpectedType]]
    model_calls: Callable[[P], int]
    writes: Callable[[P], Iterable[Reference]]
    rewrite: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None
    streams: Callable[[P], bool]
    shows: Callable[[P], Iterable[MessageAlternative]]
    effects: Effects | Callable[[RunContext, P], Effects]
    runs_once: bool
    """True stands for the effects ``writes``."""
    region: RegionRules[RunContext, P] | None
    tools: Callable[[P], Sequence[ToolEntry]]
    allowed_tools: Callable[[P], Sequence[str] | None]
    ask_tools: Callable[[P], Sequence[str]]
    server_tools: Callable[[P], Iterable[ServerTool]]
    requires: Callable[[P], Iterable[Requirement]]
    prompt_texts: Callable[[P], Iterable[PromptText]]
    example: ToolExample
    plays: Callable[[P], CanvasName] | None
    asks: Callable[[RunContext, P], Form | None]


class ComponentOptions(SharedOptions[P], Generic[P], total=False):
    """The options of `component`."""

    tool: ToolRules[RunContext, P] | None


def component(
    name: str,
    *,
    params: type[P],
    outputs: type[O],
    kind: Kind = "plain",
    description: str,
    source: str = "",
    **options: Unpack[ComponentOptions[P]],
) -> Callable[[Callable[[RunContext, P], Awaitable[O]]], ComponentSpec[RunContext, P]]:
    """Return a decorator that turns a ``run`` function into a `ComponentSpec`.

    The catalog finds the spec under any module-level name. ``source`` is the RAGFlow file on whose behaviour the
    component is based.
    """
    translate_once(options)

    def decorate(run: Callable[[RunContext, P], Awaitable[O]]) -> ComponentSpec[RunContext, P]:
        return ComponentSpec(
            name=name,
            kind=kind,
            params=params,
            outputs=outputs,
            run=run,
            description=description,
            source=source,
            **cast("Any", options),
        )

    return decorate


def translate_once(options: SharedOptions[P]) -> None:
    """Replace ``runs_once`` by the effects that it stands for, unless they are given."""
    if options.pop("runs_once", False):
        options.setdefault("effects", "writes")
