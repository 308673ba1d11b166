"""Iteration: run the body once for each item of a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, RegionRules
from ragflow_lg.dsl.variable_references import Reference, parse_reference

_ALIASES = ("item", "index", "result")
_TYPE_NAMES = {"dict": "map", "str": "text", "bool": "boolean", "int": "number", "float": "number", "NoneType": "null"}


class Params(ComponentParams):
    """Parameters of Iteration. ``outputs`` maps a name to ``{"ref": "<body node>@<output>"}``."""

    items_ref: Reference
    """The list to iterate over."""
    max_concurrency: Annotated[int, Field(ge=0, le=64)] = 0
    """Number of items processed concurrently; 0 and 1 mean one at a time."""
    item_var: str | None = None
    """Name of the item in the simplified form; the compiler reads ``{name}`` as ``{item}``."""
    wraps_single: bool = False
    """Whether a value that is not a list is treated as a list of one item, as in the simplified form."""


class Outputs(ComponentOutputs):
    """One list per declared output."""


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the simplified ``items`` as ``items_ref``."""
    if "items" not in params or "items_ref" in params:
        return params
    rest = {key: value for key, value in params.items() if key != "items"}
    return {**rest, "items_ref": params["items"], "wraps_single": True}


def _declarations(params: Params) -> dict[str, Any]:
    outputs: Any = params.outputs
    return cast("dict[str, Any]", outputs) if isinstance(outputs, dict) else {}


def _collects(params: Params) -> Mapping[str, Reference]:
    references: dict[str, Reference] = {}
    for name, declared in _declarations(params).items():
        text: Any = cast("dict[str, Any]", declared).get("ref") if isinstance(declared, dict) else None
        if isinstance(text, str) and (reference := _body_reference(text)):
            references[name] = reference
    return references


def _body_reference(text: str) -> Reference | None:
    """Read the source of an output: an output of a body node, or an alias for the item."""
    alias = text.strip("{} \t\r\n").lower()
    return Reference("alias", alias, alias) if alias in _ALIASES else parse_reference(text)


def _items(ctx: RunContext, params: Params) -> Sequence[JsonValue]:
    items = ctx.value(params.items_ref)
    if isinstance(items, list):
        return cast("list[Any]", items)
    if params.wraps_single and items is not None and items != "":
        return [items]
    name = _TYPE_NAMES[type(cast("object", items)).__name__]
    raise ComponentError(f"{params.items_ref} must be an array, but its type is {name}.", node=ctx.node.id)


def _lint(params: Params) -> Iterable[Finding]:
    for name in sorted(_declarations(params).keys() - _collects(params).keys()):
        yield Finding(
            "reference-unknown-output",
            "warning",
            ("outputs", name),
            f"The output {name!r} does not refer to an output of a node in the body; it will be an empty list.",
            'Set "ref" to such an output, for example "node@result".',
        )


@component(
    "Iteration",
    kind="region",
    aliases=("Parallel",),
    params=Params,
    outputs=Outputs,
    rewrite=_rewrite,
    unused=frozenset(["variable"]),
    lint=_lint,
    output_names=_declarations,
    timeout_s=None,
    shows_default=True,
    region=RegionRules(
        items=_items,
        has_next_round=lambda ctx, params: ctx.round.index < len(ctx.round.items or ()),
        collects=_collects,
        max_concurrency=lambda params: max(1, params.max_concurrency),
        list_reference=lambda params: params.items_ref,
        accepts_single=lambda params: params.wraps_single,
    ),
    effects="none",
    description="Run the nodes inside once for each item of a list.",
    source="agent/component/iteration.py",
)
async def iteration(ctx: RunContext, params: Params) -> Outputs:
    """Return empty lists; the engine appends to them after each round."""
    ctx.report_inputs({})
    _items(ctx, params)
    return Outputs() if ctx.compatibility.old_values else Outputs(**{name: [] for name in _declarations(params)})
