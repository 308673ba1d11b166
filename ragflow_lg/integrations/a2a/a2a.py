"""A2A: ask an agent of another server over the Agent2Agent protocol."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from pydantic import BaseModel, Field

from ragflow_lg.agents.agent_log import AgentLog
from ragflow_lg.base.errors import ComponentError, RagflowLgError
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, Requirement, ToolExample, ToolResult
from ragflow_lg.component.tool import QueryText, tool
from ragflow_lg.integrations.a2a.remote_answers import RemoteAgents, RemoteAnswer, RemoteFile
from ragflow_lg.services.artifacts import Artifact
from ragflow_lg.services.chat import Usage

TIMEOUT_S = 3600.0
"""A limit for every task; ``timeout_s`` in ``[a2a.NAME]`` is usually lower."""
MAX_ID_CHARS = 200
MAX_NOTES = 100
"""How many reports of an agent's progress are recorded."""


class Params(ComponentParams):
    """Parameters of A2A."""

    agent: str
    """The name of an agent in the settings, ``[a2a.NAME]``."""


class Arguments(BaseModel):
    """A message to the agent."""

    query: QueryText = Field("", description="The message to the agent.")
    task: QueryText = Field("", description="The task that waits for this answer, if the agent has asked something.")


class Outputs(ComponentOutputs):
    """The answer, or the question that the agent asks."""

    content: str = ""
    state: str = ""
    """``completed`` or ``input-required``."""
    task: str = ""
    """The task that waits for an answer, or ``""``."""


@tool(
    "A2A",
    function="ask_agent",
    params=Params,
    arguments=Arguments,
    outputs=Outputs,
    defaults={"query": "{sys.query}", "task": ""},
    blank=ToolResult("", {"content": "", "state": "", "task": ""}),
    read_name=lambda params: f"ask_{params.agent}",
    requires=lambda params: (Requirement("a2a_agent", params.agent, ("agent",)),),
    timeout_s=TIMEOUT_S,
    effects="writes",
    description="Ask an agent of another server.",
    example=ToolExample('[a2a.NAME]\nurl = "https://…"', {"agent": "NAME"}),
)
async def a2a(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Send the message, and wait until the agent has answered or asks for something."""
    log, notes = AgentLog(ctx), count()

    async def report(text: str) -> None:
        if next(notes) < MAX_NOTES:
            await log.record_note(params.agent, text, 0.0, Usage())

    task_id = arguments.task[:MAX_ID_CHARS]
    answer = await ctx.services.of(RemoteAgents).ask(params.agent, arguments.query, task_id, report)
    text = _describe(answer)
    files = [await _keep(ctx, file) for file in answer.files]
    task = answer.task if answer.state == "input-required" else ""
    content = "\n\n".join(filter(None, (text, *(f"[{file['name']}]({file['url']})" for file in files if file["url"]))))
    hint = f"\n\nThe agent waits. Call again with the answer, and with task={json.dumps(task)}." if task else ""
    outputs: Any = {"content": content, "state": answer.state, "task": task}
    return ToolResult(content + hint, outputs, artifacts=files)


def _describe(answer: RemoteAnswer) -> str:
    """Return the text, and what the agent has said as JSON."""
    data = [json.dumps(value, ensure_ascii=False, sort_keys=True) for value in answer.data]
    return "\n\n".join(filter(None, (answer.text, *data)))


async def _keep(ctx: RunContext, file: RemoteFile) -> dict[str, Any]:
    """Keep a file that the agent has sent. Nothing is loaded from addresses."""
    url = file.url if file.url.startswith(("https://", "http://")) else ""
    if file.content:
        try:
            stored = await ctx.services.artifacts.store(
                Artifact(file.name, file.mime_type, file.content), has_text=False
            )
        except RagflowLgError as error:
            raise ComponentError(f"The file {file.name[:80]!r} cannot be kept: {error}", node=ctx.node.id) from error
        url = stored.url
    return {"name": file.name, "url": url, "mime_type": file.mime_type, "size": len(file.content)}
