"""UserFillUp: asks the user to fill a form and waits for the answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ragflow_lg.errors import ComponentError
from ragflow_lg.refs import Template
from ragflow_lg.spec import ComponentOutputs, ComponentParams, component

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["user_fill_up"]


class Params(ComponentParams):
    """Parameters of UserFillUp."""

    enable_tips: bool = True
    tips: Template | None = None
    layout_recognize: str | None = ""
    inputs: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The form: field name → ``{name, type, optional, options, value}``."""


class Outputs(ComponentOutputs):
    """The rendered tips and one output per answered field."""

    tips: str = ""


def _names(params: Params) -> Iterable[str]:
    return params.inputs


@component(
    "UserFillUp",
    kind="interrupt",
    aliases=("Fillup",),
    params=Params,
    outputs=Outputs,
    output_names=_names,
    timeout_s=None,
    is_ready=False,
    description="Show a form to the user and wait for the answer.",
    source="agent/component/fillup.py",
)
async def user_fill_up(ctx: RunContext, params: Params) -> Outputs:
    """Refuse to run: the compiler reports the component before a run can begin."""
    raise ComponentError("This version cannot run UserFillUp.", node=ctx.node.id)
