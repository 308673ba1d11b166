"""What an agent's runs have stored about themselves, and its components run alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import CheckpointError, ConflictError, RequestError
from ragflow_lg.component.plan import find_stored_secrets, make_redacted_view
from ragflow_lg.engine.single_visit import ObservedVisit, visit_observed
from ragflow_lg.runs.stored_variables import ShownVariable, show_variables
from ragflow_lg.server.agents.tenant_services import tenant_services
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from ragflow_lg.component.events import ModelCalled
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.dsl.redacted_view import RedactedView
    from ragflow_lg.runs.stored_variables import Moment
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, RunRow, SessionRow, VersionRow
    from ragflow_lg.server.runs.turns import Turns
    from ragflow_lg.services.services import Services


class Inspector:
    """Reads what one agent's runs have stored. Values are shown without secrets and within limits."""

    def __init__(self, app_state: AppState, turns: Turns, agent: AgentRow) -> None:
        self._app_state = app_state
        self._turns = turns
        self._agent = agent

    async def node_log(self, run: RunRow) -> tuple[list[Any], list[Any], int]:
        """Return the node executions and the model calls of a run, and how many calls are no longer stored.

        They are empty if the run has stored nothing, or no longer has.
        """
        blocks = await self._app_state.store.node_logs.get(run.id) or []
        by_kind = {str(block.get("kind")): block for block in blocks}
        visits, calls = (cast("list[Any]", by_kind.get(kind, {}).get("trace") or []) for kind in ("visits", "calls"))
        dropped = by_kind.get("calls", {}).get("dropped")
        return visits, calls, dropped if isinstance(dropped, int) else 0

    async def moment(self, session: SessionRow, checkpoint: str) -> tuple[Moment, list[ShownVariable], int, Plan]:
        """Return a stored step, its variables, the number of those left out, and the plan of the session's canvas.

        Raises:
            RequestError: If there is no such checkpoint.
        """
        runner = await self._turns.runner(self._agent, session)
        try:
            moment = await runner.moment(session.id, checkpoint)
        except CheckpointError as error:
            if isinstance(error, ConflictError) or error.__cause__ is not None:
                raise
            raise RequestError("The session has no such checkpoint.", status=404) from error
        view = self._view(runner.plan, *find_stored_secrets(moment.previous_values, moment.values))
        variables, left_out = show_variables(moment, view)
        return moment, variables, left_out, runner.plan

    async def try_node(
        self, version: VersionRow, node: str, values: Mapping[str, Any], feed: tuple[SessionRow, str] | None
    ) -> tuple[ObservedVisit, RedactedView]:
        """Run one component of a version alone, in a run slot.

        ``feed`` is the session and the checkpoint whose values it reads, apart from ``values``; without it, those of a
        new session.

        Raises:
            RequestError: If the component cannot run alone, or a value does not belong to any of its inputs.
        """
        stored: Mapping[str, Any] = {}
        if feed is not None:
            stored = await (await self._turns.runner(self._agent, feed[0])).state_at(feed[0].id, feed[1])
        canvas = await self._turns.canvases.compile(version)
        services = tenant_services(self._app_state, self._agent.tenant, self._agent.id)
        tenant = self._agent.tenant
        visited = await visit_counted(self._turns, tenant, canvas.plan, node, values, services, stored)
        return visited, self._view(canvas.plan)

    def _view(self, plan: Plan, *secrets: str) -> RedactedView:
        services = tenant_services(self._app_state, self._agent.tenant, self._agent.id)
        return make_redacted_view(plan, (*services.all_secrets, *secrets))


async def visit_counted(
    turns: Turns,
    tenant: str,
    plan: Plan,
    node: str,
    values: Mapping[str, Any],
    services: Services,
    stored: Mapping[str, Any] | None = None,
) -> ObservedVisit:
    """Run one component as `visit_observed` does. What its models use is counted, even if the client disconnects.

    Raises:
        RequestError: If the component cannot run alone, or a value does not belong to any of its inputs.
        BusyError: If no slot becomes free, or a quota is used up.
    """
    release_slot = await turns.acquire_slot(tenant)
    calls: list[ModelCalled] = []
    visited: ObservedVisit | None = None
    try:
        await turns.quotas.begin_turn(tenant)
        visited = await visit_observed(plan, node, values, services, stored, calls)
        return visited
    finally:
        try:
            await turns.quotas.add_usage(tenant, _sum_usage(visited, calls))
        finally:
            release_slot()


def _sum_usage(visited: ObservedVisit | None, calls: list[ModelCalled]) -> Usage:
    if visited is not None:
        return visited.finished.usage or Usage()
    usage = Usage()
    for call in calls:
        usage = usage.plus(call.usage)
    return usage
