"""VariableAggregator: choose the first variable that has a value."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, ReferenceEntry


class Group(BaseModel):
    """Candidates for one output."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    group_name: Annotated[str, Field(min_length=1)]
    """Name of the output."""
    variables: Annotated[list[ReferenceEntry], Field(min_length=1)]
    """The first one with a value is chosen."""


class Params(ComponentParams):
    """Parameters of VariableAggregator."""

    groups: list[Group] = Field(min_length=1)


class Outputs(ComponentOutputs):
    """One output per group that has a value."""


@component(
    "VariableAggregator",
    params=Params,
    outputs=Outputs,
    output_names=lambda params: [group.group_name for group in params.groups],
    timeout_s=3.0,
    effects="none",
    description="Choose the first variable with a value from each group.",
    source="agent/component/varaiable_aggregator.py",
)
async def variable_aggregator(ctx: RunContext, params: Params) -> Outputs:
    """Skip null, empty text, empty lists and empty maps; 0 and false are values, unless ``old_values`` is set."""
    ctx.report_inputs({f"{g.group_name}.variables": [{"value": r.text} for r in g.variables] for g in params.groups})
    values: dict[str, JsonValue] = {}
    for group in params.groups:
        for reference in group.variables:
            if reference.kind == "output" and reference.node not in ctx.plan.nodes:
                continue
            value = ctx.value(reference)
            if value if ctx.compatibility.old_values else value is not None and value not in ("", [], {}):
                values[group.group_name] = value
                break
    return Outputs.model_validate(values)
