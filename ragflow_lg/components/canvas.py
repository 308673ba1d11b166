"""Canvas: plays another canvas, as a node or as a tool of an Agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import (
    CanvasName,
    ComponentOutputs,
    ComponentParams,
    TemplateOrValue,
    ToolResult,
    ToolRules,
)
from ragflow_lg.engine.canvas_call import play_canvas

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["canvas"]


class Params(ComponentParams):
    """Parameters of Canvas: one of ``canvas`` and ``path``."""

    canvas: str = ""
    """The name of a canvas in the settings, under ``[canvases]``."""
    path: str = ""
    """A ``.json`` file, from the folder of the canvas that is written here, and within that folder."""
    arguments: dict[str, TemplateOrValue] = Field(default_factory=dict[str, Any])
    """As a node: ``query`` and the fields of its form. As a tool the model gives them."""


class Outputs(ComponentOutputs):
    """What it showed as ``content``, and the outputs of its last node as ``result``."""

    content: str = ""
    result: dict[str, Any] = Field(default_factory=dict[str, Any])


class Arguments(BaseModel):
    """What a model gives; which fields there are is a matter of the canvas that is played."""

    model_config = ConfigDict(extra="allow")


def _lint(params: Params) -> Iterable[Finding]:
    if bool(params.canvas) == bool(params.path):
        message = "Canvas needs either canvas, a name of the settings, or path, a file beside this one."
        yield Finding("params-invalid", "error", ("canvas",), message, "Set one of the two.")


def _plays(params: Params) -> CanvasName:
    return CanvasName(params.canvas, "" if params.canvas else params.path)


async def _as_tool(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Play it with what the model gives."""
    return await play_canvas(ctx, arguments.__pydantic_extra__ or {})


@component(
    "Canvas",
    params=Params,
    outputs=Outputs,
    timeout_s=1200.0,
    retries=True,
    lint=_lint,
    plays=_plays,
    tool=ToolRules("", Arguments, _as_tool),
    description="Ask another canvas.",
)
async def canvas(ctx: RunContext, params: Params) -> Outputs:
    """Play it with the arguments that the canvas around sets."""
    result = await play_canvas(ctx, {name: ctx.resolve(value) for name, value in params.arguments.items()})
    ctx.cite(result.chunks)
    return Outputs.model_validate(dict(result.outputs))
