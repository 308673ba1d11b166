"""IterationItem: the start of each round of an Iteration."""

from __future__ import annotations

from typing import Any

from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams


class Params(ComponentParams):
    """IterationItem has no specific parameters."""


class Outputs(ComponentOutputs):
    """The current item, under both of RAGFlow's names, and its 0-based index."""

    item: Any = None
    result: Any = None
    index: int = 0


@component(
    "IterationItem",
    kind="region_item",
    params=Params,
    outputs=Outputs,
    timeout_s=None,
    effects="none",
    description="Start of each round of an Iteration.",
    source="agent/component/iterationitem.py",
)
async def iteration_item(ctx: RunContext, params: Params) -> Outputs:
    """Return the current item."""
    return Outputs(item=ctx.round.item, result=ctx.round.item, index=ctx.round.index)
