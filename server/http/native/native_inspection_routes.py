"""Routes for inspecting runs: stored steps with their values, node executions, model calls, components run alone."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path
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
from ragflow_lg.server.http.native.inspection_responses import (
    ComponentAnswer,
    MomentWhole,
    NodesAnswer,
    NodeTestAnswer,
    build_moment_whole,
    build_node_run,
    build_run_nodes,
)
from ragflow_lg.server.http.native.native_requests import CHECKPOINT, NodeTestRequest
from ragflow_lg.server.http.native.native_routing import (
    Agent,
    Authenticated,
    Control,
    make_agent_router,
    make_native_router,
)
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import await_while_connected
from ragflow_lg.server.runs.run_inspection import RunInspection

router = make_agent_router("inspection")
component_router = make_native_router("inspection")

MAX_NAME_CHARS = 255


def build_inspection(request: Request, agent: Agent) -> RunInspection:
    """Create the inspection for the agent."""
    return RunInspection(get_app_state(request), get_turns(request), agent)


Inspection = Annotated[RunInspection, Depends(build_inspection)]


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
    return build_moment_whole(moment, variables, left_out, plan)


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
    return _describe_component(name)


def _describe_component(name: str) -> ComponentAnswer:
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
