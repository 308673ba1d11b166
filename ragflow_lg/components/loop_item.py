"""LoopItem: the start of each round of a Loop."""

from __future__ import annotations

from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams


class Params(ComponentParams):
    """LoopItem has no specific parameters."""


class Outputs(ComponentOutputs):
    """No outputs."""


_NOTHING = Outputs()


@component(
    "LoopItem",
    kind="region_item",
    params=Params,
    outputs=Outputs,
    timeout_s=None,
    effects="none",
    description="Start of each round of a Loop.",
    source="agent/component/loopitem.py",
)
async def loop_item(ctx: RunContext, params: Params) -> Outputs:
    """Do nothing: the engine asks the Loop (`loop.py`) whether there is another round."""
    return _NOTHING
