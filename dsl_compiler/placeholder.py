"""Stand-ins for components that cannot run, so that the rest of the canvas can still be checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragflow_lg.errors import ComponentError
from ragflow_lg.spec import ComponentOutputs, ComponentParams, ComponentSpec

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["placeholder"]


class _Params(ComponentParams):
    """Any params."""


async def _refuse(ctx: RunContext, params: Any) -> ComponentOutputs:
    raise ComponentError("The canvas has errors and cannot run.", node=ctx.node.id)


def placeholder(name: str, *, is_ready: bool, is_entry: bool = False) -> ComponentSpec[Any]:
    """Make a spec that accepts any params and has any output; a canvas that holds one never runs."""
    return ComponentSpec(
        name=name,
        kind="entry" if is_entry else "plain",
        params=_Params,
        outputs=ComponentOutputs,
        run=_refuse,
        description="",
        source="",
        output_names=lambda params: None,
        is_ready=is_ready,
    )
