"""Routes for inspecting runs: stored steps with their values, node executions, model calls, components run alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from fastapi import Depends, Path
from msgspec.structs import asdict
from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.component.parameter_help import parameters_of
from ragflow_lg.component.spec import AnySpec, ComponentParams
from ragflow_lg.dsl_compiler.placeholder import RENAMED
from ragflow_lg.dsl_compiler.schema import params_schema
from ragflow_lg.server.agents.agent_versions import build_version, find_version
from ragflow_lg.server.agents.drafts import check_draft
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.database.tables import AgentRow, VersionRow
from ragflow_lg.server.http.native.native_requests import CHECKPOINT, NodeTestRequest
from ragflow_lg.server.http.native.native_responses import MomentAnswer, build_answer, build_moment_answer
from ragflow_lg.server.http.native.native_routing import (
    Agent,
    Authenticated,
    Control,
    make_agent_router,
    make_native_router,
)
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import await_while_connected
from ragflow_lg.server.runs.run_inspection import Inspector

if TYPE_CHECKING:
    from ragflow_lg.component.events import ModelCalled
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.dsl.redacted_view import RedactedView
    from ragflow_lg.engine.single_visit import ObservedVisit


MAX_OUTPUT_CHARS = 200_000
_DETAILS: Mapping[str, Any] = {
    **dict.fromkeys(("model", "system", "answer", "error"), ""),
    **dict[str, Any](messages=[], images=0, tools=[], sampling={}, calls=[]),
}
"""What is shown of a model call, and its values if they are missing or of another type."""


class CostAnswer(BaseModel):
    """Tokens as the provider counted them, and their cost according to the prices in the settings."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: Annotated[float, Field(description="0 without prices.")] = 0.0


class ModelCallAnswer(BaseModel):
    """One call of a model, with the prompts as they were sent. Secrets are replaced by `***`, long texts are cut."""

    node: Annotated[str, Field(description="Id of the component.")]
    path: Annotated[str, Field(description="The component, or the tool in it that called the model.")]
    visit: Annotated[int, Field(description="Number of the component's execution in the run.")]
    place: Annotated[str, Field(description="Numbers of the enclosing rounds, separated by dots.")]
    start_ms: int
    seconds: float
    usage: CostAnswer
    model: str
    system: Annotated[str, Field(description="System prompt.")]
    messages: Annotated[list[Any], Field(description="Messages after the system prompt, as they were sent.")]
    images: Annotated[int, Field(description="Number of images.")]
    tools: Annotated[list[Any], Field(description="Names of the tools that were offered.")]
    sampling: dict[str, Any]
    answer: str
    calls: Annotated[list[Any], Field(description="Tool calls in the answer.")]
    error: Annotated[str, Field(description="Why the call failed; empty if it did not.")]


class VisitAnswer(BaseModel):
    """One execution of a component."""

    node: str
    title: str
    visit: int
    place: str
    start_ms: int
    seconds: float
    attempts: Annotated[int, Field(description="How often it was tried: more than once after errors.")]
    is_failed: bool
    notices: Annotated[
        list[str],
        Field(description="What did not fail it: messages that did not fit into a model's context, and so on."),
    ]
    usage: CostAnswer


class NodesAnswer(BaseModel):
    """The component executions and model calls of a run, oldest first."""

    visits: list[VisitAnswer]
    calls: list[ModelCallAnswer]
    dropped_calls: Annotated[int, Field(description="Number of earlier calls that are no longer stored.")]
    usage: Annotated[CostAnswer, Field(description="Sum over the visits.")]


class VariableAnswer(BaseModel):
    """A variable at a stored step. Secrets are replaced by `***`, long values are cut."""

    name: Annotated[str, Field(description="As `changes` takes it: `sys.x`, `env.x` or `node@output`.")]
    value: Any
    is_whole: Annotated[bool, Field(description="Whether `value` is exactly what is stored.")]
    change: Annotated[
        Literal["added", "changed", "removed", "same"], Field(description="Compared with the step before.")
    ]
    before: Annotated[Any, Field(description="Value before, if it was changed or removed.")]


class MomentWhole(MomentAnswer):
    """A stored step with its variables, changed ones first."""

    previous: Annotated[str, Field(description="Checkpoint of the step before; empty for the first one.")]
    variables: list[VariableAnswer]
    left_out: Annotated[int, Field(description="Number of variables that are not listed.")]


class NodeTestAnswer(BaseModel):
    """What a component did when it ran alone. A failed component is no problem: `error` contains the reason."""

    node: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    error: str
    seconds: float
    attempts: int
    usage: CostAnswer
    calls: list[ModelCallAnswer]


class ComponentAnswer(BaseModel):
    """A component and its parameters."""

    name: str
    description: str
    kind: str
    params_schema: Annotated[dict[str, Any], Field(description="JSON Schema of the parameters in a canvas.")]
    parameters: Annotated[list[dict[str, Any]], Field(description="What the parameters are for, with types in words.")]
    common: Annotated[list[str], Field(description="Parameters that every component has.")]


def build_run_nodes(visits: Sequence[Any], calls: Sequence[Any], dropped: int, plan: Plan) -> NodesAnswer:
    """Build the answer from the entries of a stored log. Entries that are damaged are left out."""
    rows = [_build_visit(entry, plan) for entry in visits]
    usages = [row.usage for row in rows]
    total = CostAnswer(
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        cost=sum(usage.cost for usage in usages),
    )
    answers = [_build_stored_call(entry) for entry in calls]
    return NodesAnswer(visits=rows, calls=answers, dropped_calls=dropped, usage=total)


def build_node_run(visited: ObservedVisit, view: RedactedView) -> NodeTestAnswer:
    """Build the answer for a component that ran alone."""
    finished = visited.finished
    return NodeTestAnswer(
        node=finished.node,
        inputs=cast("dict[str, Any]", view.value(finished.inputs, MAX_OUTPUT_CHARS)),
        outputs=cast("dict[str, Any]", view.value(finished.outputs, MAX_OUTPUT_CHARS)),
        error=view.text(finished.error or ""),
        seconds=finished.elapsed_s,
        attempts=finished.attempts,
        usage=build_answer(CostAnswer, finished.usage) if finished.usage is not None else CostAnswer(),
        calls=[_build_call(call) for call in visited.calls],
    )


def _build_call(call: ModelCalled) -> ModelCallAnswer:
    usage = [call.usage.prompt_tokens, call.usage.completion_tokens, call.usage.cost]
    names = ("node", "path", "visit", "place", "created_at", "seconds")
    place: dict[str, Any] = {name: getattr(call, name) for name in names}
    return _build_stored_call({**place, "usage": usage, **call.details})


def _build_stored_call(entry: Mapping[str, Any]) -> ModelCallAnswer:
    details = {name: entry.get(name, value) for name, value in _DETAILS.items()}
    return ModelCallAnswer(**_read_common(entry), path=entry["path"], **details)


def _build_visit(entry: Mapping[str, Any], plan: Plan) -> VisitAnswer:
    known = plan.nodes.get(entry["node"])
    return VisitAnswer(
        **_read_common(entry),
        title=(known.title if known is not None else "") or entry["node"],
        attempts=entry["attempts"],
        is_failed=bool(entry.get("failed")),
        notices=entry.get("notices") or [],
    )


def _read_common(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a stored execution and a stored call both say."""
    prompt_tokens, completion_tokens, cost = entry.get("usage") or (0, 0, 0.0)
    return {
        "node": entry["node"],
        "visit": entry["visit"],
        "place": entry["place"],
        "start_ms": round(entry["created_at"] * 1000),
        "seconds": entry["seconds"],
        "usage": CostAnswer(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cost=cost),
    }


router = make_agent_router("inspection")
component_router = make_native_router("inspection")

MAX_NAME_CHARS = 255


def build_inspection(request: Request, agent: Agent) -> Inspector:
    """Create the inspection for the agent."""
    return Inspector(get_app_state(request), get_turns(request), agent)


Inspection = Annotated[Inspector, Depends(build_inspection)]


@router.get("/sessions/{session_id}/history/{checkpoint}", summary="Show a step")
async def get_moment(
    session_id: str,
    checkpoint: Annotated[str, Path(pattern=CHECKPOINT, min_length=1)],
    control: Control,
    inspection: Inspection,
) -> MomentWhole:
    """Return the variables at a stored step, and what has changed since the step before it.

    The names are those that `changes` of `rerun` and `fork` take.
    """
    moment, variables, left_out, plan = await inspection.moment(await control.session(session_id), checkpoint)
    rows = [VariableAnswer(**asdict(row)) for row in variables]
    fields = vars(build_moment_answer(moment.info, plan))
    return MomentWhole(**fields, previous=moment.previous, variables=rows, left_out=left_out)


@router.get("/runs/{run_id}/nodes", summary="Show nodes")
async def get_run_nodes(
    run_id: str, request: Request, agent: Agent, control: Control, inspection: Inspection
) -> NodesAnswer:
    """Return how the components of a run went, and each model call with its prompts as they were sent.

    A run in which no model was called and nothing was tried again stores no list. While a run is in progress, the list
    may be a second old. Lists of old runs are deleted, in Redis after 10 minutes.
    """
    run = await control.run(run_id)
    visits, calls, dropped = await inspection.node_log(run)
    canvas = await get_turns(request).canvases.compile_version(agent, run.version_id)
    return build_run_nodes(visits, calls, dropped, canvas.plan)


@router.post("/node-runs", summary="Run a component alone")
async def run_node(
    body: NodeTestRequest, request: Request, agent: Agent, control: Control, inspection: Inspection
) -> NodeTestAnswer:
    """Run one component with given values, or with those that a run has left. Nothing is stored.

    It calls its models and services as in a run.
    """
    if body.dsl is not None and body.version:
        raise RequestError("Send either `version` or `dsl`.", 101, status=422)
    feed, version_id = None, body.version
    if body.run_id:
        run = await control.run(body.run_id)
        record = await control.record(run)
        feed = (await control.session(run.session_id), record.checkpoint if record is not None else "")
        version_id = version_id or run.version_id
    version = await _find_canvas(request, agent, version_id, body.dsl)
    trying = inspection.try_node(version, body.node, body.inputs, feed)
    visited, view = await await_while_connected(request, trying)
    return build_node_run(visited, view)


@component_router.get("/components/{name}", summary="Show a component")
async def get_component(
    name: Annotated[str, Path(max_length=MAX_NAME_CHARS)], caller: Authenticated
) -> ComponentAnswer:
    """Return the parameters of a component, as JSON Schema and in words."""
    spec: AnySpec | None = catalog().get(RENAMED.get(name, name))
    if spec is None:
        raise RequestError("There is no such component.", status=404)
    return ComponentAnswer(
        name=spec.name,
        description=spec.description,
        kind=spec.kind,
        params_schema=params_schema(spec),
        parameters=[parameter.as_dict() for parameter in parameters_of(spec.params)],
        common=list(ComponentParams.model_fields),
    )


async def _find_canvas(request: Request, agent: AgentRow, name: str, dsl: dict[str, Any] | None) -> VersionRow:
    """Return a version, or an unsaved canvas as a version that is not stored."""
    app_state = get_app_state(request)
    if dsl is None:
        return await find_version(app_state.database, agent, name)
    settings, workers = app_state.settings_of(agent.tenant), app_state.services.workers
    text = await check_draft(settings, workers, dsl, is_released=True)
    version = build_version("", agent.id, "", text, app_state.now_ms(), is_released=False)
    version.tenant = agent.tenant
    return version
