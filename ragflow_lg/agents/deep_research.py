"""Deep research: search in rounds until nothing is missing, then write one answer that cites the sources.

`ragflow_lg.agents.research_rounds` plays the rounds. Source: the idea of RAGFlow's
``agentic_reasoning/deep_research.py``.
"""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.agents.agent_run import AgentRun, append_message, request_schema
from ragflow_lg.agents.research_rounds import Research, research
from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.models.engine_prompts import engine_prompt
from ragflow_lg.models.prompts import CONTEXT_SHARE
from ragflow_lg.services.references import knowledge_text

NOTHING = "(none)"


async def deep_research(run: AgentRun) -> str:
    """Search until the model asks no more queries or the budget is used up; return the answer."""
    return await _write_report(run, await research(run))


async def _write_report(run: AgentRun, state: Research) -> str:
    """Ask for the final answer and stream it. Findings may fill half of the remaining context, passages the rest."""
    fixed = "".join(message["content"] for message in run.request.messages if isinstance(message["content"], str))
    prompt = engine_prompt(run.ctx, "research_report", findings="", passages="", reason=state.end)
    used = estimate_tokens(f"{run.request.system}{run.guidelines}{fixed}{prompt}")
    room = max(run.model.context_tokens // 8, int(run.model.context_tokens * CONTEXT_SHARE) - used)
    findings = state.findings_text(room // 2) if state.findings else "[]"
    left = room - estimate_tokens(findings)
    passages = shorten(knowledge_text(state.sources, left), left) if state.sources else NOTHING
    prompt = engine_prompt(run.ctx, "research_report", findings=findings, passages=passages, reason=state.end)
    messages = append_message(run.request.messages, "user", prompt)
    request = request_schema(run, replace(run.request, messages=tuple(messages)))
    return (await run.ask(run.with_guidelines(request), "report", run.stream)).text
