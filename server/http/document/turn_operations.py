"""Descriptions of routes that run turns (RAGFlow's, OpenAI-compatible, webhooks) and of operational routes."""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import replace

from ragflow_lg.server.http.document.agent_operations import COMPAT
from ragflow_lg.server.http.document.chat_shapes import ChatAnswer, ChatChunk, ChatModel, ChatModels
from ragflow_lg.server.http.document.descriptions import Route
from ragflow_lg.server.http.document.request_bodies import (
    AgentCompletionBody,
    CancelBody,
    ChatBody,
    CompletionBody,
    EmbeddedBody,
    PlayBody,
    TaskChange,
)
from ragflow_lg.server.http.document.response_shapes import (
    EmbeddedAgent,
    Greeting,
    Health,
    Readiness,
    TurnAnswer,
    TurnFrame,
    WebhookAnswer,
    WebhookEvents,
)
from ragflow_lg.server.http.shared.answers import Refusal
from ragflow_lg.server.http.shared.described_routes import describe_header, describe_query

_STREAM = (
    'data:{"event":"message","message_id":"9b1f…","created_at":1795293660,"task_id":"5f0c…",'
    '"data":{"content":"It is"},"session_id":"5f0c…"}\n\ndata:[DONE]\n\n'
)
_CHAT_STREAM = (
    'data: {"id":"5f0c…","object":"chat.completion.chunk","choices":[{"delta":{"content":"It is"},'
    '"finish_reason":null,"index":0}]}\n\ndata: [DONE]\n\n'
)

_DISCONNECT = describe_header(
    "X-RAGFlow-On-Disconnect",
    "What happens to the run when its client disconnects: `cancel`, `continue` or `grace:SECONDS`. Default: the "
    "server's settings.",
    pattern="^(cancel|continue|grace:[0-9]+)$",
    examples=["cancel", "grace:30"],
)
_IDS = describe_header("X-RAGFlow-Event-Ids", "Whether to add ids to the frames of a stream.", enum=["true", "false"])
_RESUME = (
    describe_header("Last-Event-ID", "Last event received, `RUN:NUMBER`: the stream resumes after it."),
    describe_query("run_id", "Run to resume, together with `from`."),
    describe_query("from", "Number of the first event to send, from 1.", pattern="^[0-9]{1,15}$"),
)

_FRAME = TurnFrame | Refusal

_COMPLETION = Route(
    "plain",
    TurnAnswer | str,
    CompletionBody,
    parameters=(_IDS, _DISCONNECT, *_RESUME, COMPAT),
    stream=_STREAM,
    frame=_FRAME | ChatChunk,
    more={200: ChatAnswer},
)
_RUN = Route(
    "plain", TurnAnswer | str, PlayBody, is_body_required=False, parameters=(_IDS, COMPAT), stream=_STREAM, frame=_FRAME
)
_CHAT = Route("openai", ChatAnswer, ChatBody, parameters=(_DISCONNECT,), stream=_CHAT_STREAM, frame=ChatChunk)

_WEBHOOK = Route(
    "webhook",
    WebhookAnswer,
    key="",
    raw={"text/plain": "Text configured in the canvas, for immediate responses.", "application/json": ""},
)
_TEST = replace(_WEBHOOK, key="ApiKey")
_EVENTS = Route(
    answer=WebhookEvents,
    parameters=(
        describe_query(
            "since_ts",
            "`next_since_ts` of the last response. Default: return the current time, to start polling.",
            "number",
        ),
        describe_query("webhook_id", "Id of the test, from an earlier response."),
    ),
)

TURN_ROUTES: dict[str, Route] = {
    "POST /api/v1/agents/chat/completions": _COMPLETION,
    "POST /api/v1/agents/chat/completion": _COMPLETION,
    "POST /api/v1/agents/{agent_id}/completions": replace(_COMPLETION, body=AgentCompletionBody),
    "POST /api/v1/tasks/{task_id}/cancel": Route(answer=Literal[True]),
    "PATCH /api/v1/tasks/{task_id}": Route(answer=Literal[True], body=TaskChange),
    "POST /api/v1/agents/{agent_id}/run": _RUN,
    "POST /api/v1/agents/{agent_id}/stream": _RUN,
    "POST /api/v1/agents/{agent_id}/cancel": Route(answer=Literal[True], body=CancelBody),
    "POST /api/v1/agentbots/{agent_id}/completions": Route(
        "plain",
        TurnAnswer,
        EmbeddedBody,
        parameters=(_IDS, _DISCONNECT, *_RESUME),
        key="BetaKey",
        stream=_STREAM,
        frame=_FRAME,
    ),
    "GET /api/v1/agentbots/{agent_id}/inputs": Route("plain", EmbeddedAgent, key="BetaKey"),
    # OpenAI's
    "POST /v1/chat/completions": _CHAT,
    "POST /api/v1/agents_openai/{agent_id}/chat/completions": _CHAT,
    "GET /v1/models": Route("openai", ChatModels),
    "GET /v1/models/{agent_id}": Route("openai", ChatModel),
    "GET /api/v1/agents_openai/{agent_id}/models": Route("openai", ChatModels),
    # webhooks
    **{
        f"{method} /api/v1/{path}": replace(described, body=dict[str, Any], is_body_required=False)
        if method in ("POST", "PUT", "PATCH")
        else described
        for method in ("POST", "GET", "PUT", "PATCH", "DELETE", "HEAD")
        for path, described in (
            ("agents/{agent_id}/webhook", _WEBHOOK),
            ("webhook/{agent_id}", _WEBHOOK),
            ("agents/{agent_id}/webhook/test", _TEST),
            ("webhook_test/{agent_id}", _TEST),
        )
    },
    "GET /api/v1/agents/{agent_id}/webhook/logs": _EVENTS,
    "GET /api/v1/webhook_trace/{agent_id}": _EVENTS,
    # the server
    "GET /": Route("none", Greeting, key=""),
    "GET /health": Route("none", Health, key=""),
    "GET /ready": Route("none", Readiness, key="", more={503: Readiness}),
    "GET /metrics": Route("none", key="MetricsKey", raw={"text/plain": "Metrics in Prometheus's text format."}),
}
