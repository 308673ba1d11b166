"""Stand-ins for components that cannot run, so that the rest of the canvas can still be checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.component.spec import AnySpec, ComponentOutputs, ComponentParams, ComponentSpec, Kind, Route

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["is_placeholder", "placeholder"]


class _Params(ComponentParams):
    """Any params."""


async def _refuse(ctx: RunContext, params: Any) -> ComponentOutputs:
    raise ComponentError("The canvas has errors and cannot run.", node=ctx.node.id)


def placeholder(name: str, *, is_ready: bool, kind: Kind = "plain", routes: Sequence[Route] = ()) -> AnySpec:
    """Make a spec that accepts any params and has any output; a canvas that holds one never runs.

    Of a component whose params are wrong, ``kind`` and ``routes`` stay, so that the nodes around are not blamed.
    """
    return ComponentSpec(
        name=name,
        kind="route" if routes and kind == "plain" else kind,
        params=_Params,
        outputs=ComponentOutputs,
        run=_refuse,
        description="",
        source="",
        output_names=lambda params: None,
        routes=lambda params: routes,
        is_ready=is_ready,
    )


def is_placeholder(spec: AnySpec) -> bool:
    """Tell whether a spec only stands in for a component."""
    return spec.params is _Params
