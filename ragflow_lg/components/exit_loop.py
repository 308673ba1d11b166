"""ExitLoop: leave the enclosing Loop."""

from __future__ import annotations

from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams


class Params(ComponentParams):
    """ExitLoop has no specific parameters."""


class Outputs(ComponentOutputs):
    """No outputs."""


@component(
    "ExitLoop",
    kind="region_exit",
    params=Params,
    outputs=Outputs,
    timeout_s=None,
    effects="none",
    description="Leave the Loop at once.",
    source="agent/component/exit_loop.py",
)
async def exit_loop(ctx: RunContext, params: Params) -> Outputs:
    """Do nothing: the engine leaves the region after every node of this kind."""
    return Outputs()
