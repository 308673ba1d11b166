"""RAGFlow's routes for creating agents: templates, and the default prompts."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.agents.plan_prompts import PROMPTS
from ragflow_lg.models.citations import CITATION_GUIDELINES
from ragflow_lg.server.agents.agent_versions import load_templates
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state
from ragflow_lg.server.http.shared.responses import respond

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: templates"])


@router.get("/agents/templates")
async def list_templates(request: Request, caller: Authenticated) -> Response:
    """List the agent templates."""
    return respond(await asyncio.to_thread(load_templates, get_app_state(request).settings.server.templates))


@router.get("/agents/prompts")
async def get_prompts(caller: Authenticated) -> Response:
    """Return the default agent prompts, which a canvas can replace."""
    return respond(
        {
            "task_analysis": PROMPTS["TASK_ANALYSIS"],
            "plan_generation": PROMPTS["PLAN_GENERATION"],
            "reflection": PROMPTS["REFLECTION"],
            "citation_guidelines": CITATION_GUIDELINES,
        }
    )
