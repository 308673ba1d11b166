"""A component that runs alone, in a run slot and with its tenant's quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ragflow_lg.engine.single_visit import ObservedVisit, visit_observed
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from ragflow_lg.component.events import ModelCalled
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.server.runs.turns import Turns
    from ragflow_lg.services.services import Services


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
