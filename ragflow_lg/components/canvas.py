"""Canvas: run another canvas, as a node or as a tool of an Agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import CanvasName, ComponentOutputs, ComponentParams, TemplateOrValue, ToolRules
from ragflow_lg.engine.canvas_call import play_canvas


class Params(ComponentParams):
    """Parameters of Canvas: exactly one of ``canvas`` and ``path``."""

    canvas: str = ""
    """Name of a canvas under ``[canvases]`` in the settings."""
    path: str = ""
    """A ``.json`` file in this canvas's folder, as a relative path."""
    arguments: dict[str, TemplateOrValue] = Field(default_factory=dict[str, Any])
    """For a node, ``query`` and the fields of the nested canvas's form. For a tool, the model sets them."""


class Outputs(ComponentOutputs):
    """The answer as ``content``, and the outputs of the last node as ``result``."""

    content: str = ""
    result: dict[str, Any] = Field(default_factory=dict[str, Any])


class Arguments(BaseModel):
    """Arguments from a model; the nested canvas determines the fields."""

    model_config = ConfigDict(extra="allow")


def _lint(params: Params) -> Iterable[Finding]:
    if bool(params.canvas) == bool(params.path):
        message = "Canvas needs either canvas (a name from the settings) or path (a file next to this one)."
        yield Finding("params-invalid", "error", ("canvas",), message, "Set exactly one of the two.")


@component(
    "Canvas",
    params=Params,
    outputs=Outputs,
    timeout_s=1200.0,
    retries=True,
    lint=_lint,
    plays=lambda params: CanvasName(params.canvas, "" if params.canvas else params.path),
    tool=ToolRules("", Arguments, lambda ctx, params, arguments: play_canvas(ctx, arguments.__pydantic_extra__ or {})),
    effects="pays",
    description="Run another canvas.",
)
async def canvas(ctx: RunContext, params: Params) -> Outputs:
    """Run the canvas with the arguments that the outer canvas sets."""
    result = await play_canvas(ctx, {name: ctx.resolve(value) for name, value in params.arguments.items()})
    ctx.cite(result.chunks)
    return Outputs.model_validate(dict(result.outputs))
