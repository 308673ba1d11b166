"""The route that shows a tenant's quotas and how much of them is used."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.server.agents.quotas import list_quotas
from ragflow_lg.server.http.native.native_routing import make_native_router
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state, get_turns

router = make_native_router("quotas")


class QuotaAnswer(BaseModel):
    """A quota."""

    name: Annotated[str, Field(description="Stable name, as in refusals.", examples=["turns_day"])]
    limit: Annotated[float | None, Field(description="None if there is no limit.", examples=[1000])]
    used: Annotated[float, Field(description="How much of it is used; `runs`: in this process.", examples=[17])]


class QuotaListAnswer(BaseModel):
    """The quotas of a tenant."""

    quotas: list[QuotaAnswer]


@router.get("/quotas", summary="Show quotas")
async def show_quotas(request: Request, caller: Authenticated) -> QuotaListAnswer:
    """Show the tenant's quotas and how much of them is used. Quotas of a day are renewed at 00:00 UTC."""
    runs = get_turns(request).count_runs(caller.tenant)
    uses = await list_quotas(get_app_state(request), caller.tenant, runs)
    return QuotaListAnswer(quotas=[QuotaAnswer(name=use.name, limit=use.limit or None, used=use.used) for use in uses])
