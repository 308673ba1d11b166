"""RAGFlow's routes for creating agents: templates, and the default prompts."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.models.prompt_texts import PROMPTS
from ragflow_lg.server.agents.agent_versions import load_templates
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state
from ragflow_lg.server.http.shared.responses import respond

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: templates"])


@router.get("/agents/templates")
async def list_templates(request: Request, caller: Authenticated) -> Response:
    """List the agent templates."""
    return respond(await asyncio.to_thread(load_templates, get_app_state(request).settings.server.templates))


@router.get("/agents/prompts")
async def get_prompts(request: Request, caller: Authenticated) -> Response:
    """Return the deployment's agent prompts, which a canvas can replace."""
    replaced = get_app_state(request).settings.prompts
    names = ("task_analysis", "plan_generation", "reflection", "citation_guidelines")
    return respond({name: replaced.get(name) or PROMPTS[name].text for name in names})
