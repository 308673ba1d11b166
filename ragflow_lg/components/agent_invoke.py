"""AgentInvoke: run another canvas by its agent id; a component of some RAGFlow versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field, field_validator

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.values import to_text
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import CanvasName, ComponentOutputs, ComponentParams, TemplateOrValue
from ragflow_lg.engine.canvas_call import QUERY, play_canvas
from ragflow_lg.services.references import References, add_chunks


class Params(ComponentParams):
    """Parameters of AgentInvoke."""

    agent_id: str = Field(min_length=1)
    """Name of a canvas under ``[canvases]`` in the settings; any agent id can be a name there."""
    agent_name: str | None = ""
    """The agent's title, for readers of the canvas."""
    query: TemplateOrValue = ""
    """The question."""
    inputs: dict[str, TemplateOrValue] = Field(default_factory=dict[str, Any])
    """Values for the fields of the other canvas's form, by name. Other entries are ignored."""
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 300.0
    """Time limit for the other canvas."""
    create_new_session: bool = True
    """Every call starts a new session; other values are not supported."""

    @field_validator("agent_id")
    @classmethod
    def _is_no_reference(cls, value: str) -> str:
        if "{" in value:
            raise ValueError("must be an id: the other canvas is compiled together with this one")
        return value


class Outputs(ComponentOutputs):
    """The answer, as ``answer`` and ``result``, and its sources."""

    answer: str = ""
    result: str = ""
    reference: dict[str, Any] = Field(default_factory=dict[str, Any])


def _lint(params: Params) -> Iterable[Finding]:
    if not params.create_new_session:
        message = "create_new_session has no effect in this version. Every call starts a new session."
        yield Finding("params-unsupported", "warning", ("create_new_session",), message)


@component(
    "AgentInvoke",
    params=Params,
    outputs=Outputs,
    timeout_s=lambda params: params.timeout_seconds,
    retries=True,
    lint=_lint,
    plays=lambda params: CanvasName(params.agent_id, key="agent_id"),
    effects="pays",
    description="Run another canvas by its agent id.",
    source="agent/component/agent_invoke.py",
)
async def agent_invoke(ctx: RunContext, params: Params) -> Outputs:
    """Run the canvas with the question and the inputs."""
    arguments = {name: ctx.resolve(value) for name, value in params.inputs.items()}
    query = to_text(ctx.resolve(params.query))
    result = await play_canvas(ctx, {**arguments, **({QUERY: query} if query else {})})
    ctx.cite(result.chunks, result.documents)
    answer = to_text(result.outputs["content"])
    sources: References = add_chunks({}, result.chunks, result.documents) if result.chunks else {}
    return Outputs(answer=answer, result=answer, reference=sources)
