"""Iteration: runs its body once for each item of a list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field

from ragflow_lg.errors import ComponentError
from ragflow_lg.refs import Reference
from ragflow_lg.spec import ComponentOutputs, ComponentParams, component

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["iteration"]


class Params(ComponentParams):
    """Parameters of Iteration. ``outputs`` maps a name to ``{"ref": "<body node>@<output>"}``."""

    items_ref: Reference
    max_concurrency: Annotated[int, Field(ge=0, le=64)] = 0
    """How many items run at once; 0 and 1 mean one after the other."""


class Outputs(ComponentOutputs):
    """One list for each declared output."""


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the simplified ``items`` as ``items_ref``."""
    if "items" not in params or "items_ref" in params:
        return params
    return {**{k: v for k, v in params.items() if k != "items"}, "items_ref": params["items"]}


def _names(params: Params) -> Iterable[str]:
    outputs: Any = params.outputs
    return cast("dict[str, Any]", outputs) if isinstance(outputs, dict) else ()


@component(
    "Iteration",
    kind="region",
    aliases=("Parallel",),
    params=Params,
    outputs=Outputs,
    rewrite=_rewrite,
    output_names=_names,
    timeout_s=None,
    is_ready=False,
    description="Run the nodes inside once for each item of a list.",
    source="agent/component/iteration.py",
)
async def iteration(ctx: RunContext, params: Params) -> Outputs:
    """Refuse to run: the compiler reports the component before a run can begin."""
    raise ComponentError("This version cannot run Iteration.", node=ctx.node.id)
