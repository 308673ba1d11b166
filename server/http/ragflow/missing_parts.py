"""What this server does not have of RAGFlow: the reason, and what to use instead."""

from __future__ import annotations

from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.auth import authenticate

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_RAGFLOW = "This server runs agents only; use RAGFlow for {}."
_MODELS = (
    "Models come from the server's settings ([providers], [models], [embeddings], [rerankers]); change them there."
)
_DATASETS = (
    "Datasets come from the server's settings ([knowledge]); change them with `ragflow-lg kb` or in RAGFlow. "
    "`POST /api/v1/datasets/search` searches them."
)
_PEOPLE = "People come from the server's settings ([server.users]); change them there."
_CHATS = _RAGFLOW.format("chat assistants")
_FILES = "This server keeps files without folders: `/api/v1/files` lists, uploads and deletes them."

REASONS = {
    "models": _MODELS,
    "providers": _MODELS,
    "llm": _MODELS,
    "all-models": _MODELS,
    "embeddings": _MODELS,
    "rerank": _MODELS,
    "audio": "Speech is at `/api/v1/chat/audio/speech` and `/api/v1/chat/audio/transcription`.",
    "users": _PEOPLE,
    "tenants": _PEOPLE,
    "auth": "Sign in with an API key, or as a user of the server's settings.",
    "system": "Of `system`, this server has `version`, `ping` and `healthz`. API keys are created with "
    "`ragflow-lg keys create` and revoked with `ragflow-lg keys revoke`.",
    "mcp": "MCP servers come from the server's settings ([mcp]); change them there. This server itself is one at "
    "`/mcp`, with `ragflow-lg serve --mcp`.",
    "datasets": _DATASETS,
    "documents": _DATASETS,
    "document": "Files of agents are at `/api/v1/agents/attachments/ID/download`. " + _DATASETS,
    "dify": "Search datasets with `POST /api/v1/datasets/search`.",
    "memories": "There is no such route for memories.",
    "messages": "There is no such route for memories.",
    "chats": _CHATS,
    "chats_openai": _CHATS,
    "chatbots": _CHATS,
    "chat": _CHATS,
    "openai": "Agents are models at `/v1`: send their id or title as `model`. " + _CHATS,
    "sessions": _CHATS,
    "searches": _RAGFLOW.format("search applications"),
    "searchbots": _RAGFLOW.format("search applications"),
    "files": _FILES,
    "file": _FILES,
    "workspace-files": _FILES,
    "file-commits": _FILES,
    "pipelines": _RAGFLOW.format("ingestion pipelines"),
    "compilation-templates": _RAGFLOW.format("compilation templates"),
    "compilation-template-groups": _RAGFLOW.format("compilation templates"),
    "connectors": _RAGFLOW.format("data sources"),
    "chat-channels": _RAGFLOW.format("chat channels"),
    "skills": _RAGFLOW.format("skills"),
    "langfuse": "Traces are configured in the server's settings ([otel]); Langfuse accepts them over OTLP.",
    "admin": "This server has no administration pages; change its settings and use the command `ragflow-lg keys`.",
}
"""Reasons by the first part of the path below `/api/v1`."""

OLDER_REASONS = {
    "llm": _MODELS,
    "user": _PEOPLE,
    "tenant": _PEOPLE,
    "mcp_server": REASONS["mcp"],
    "kb": _DATASETS,
    "document": _DATASETS,
    "chunk": _DATASETS,
    "connector": REASONS["connectors"],
    "dataflow": REASONS["pipelines"],
    "file2document": REASONS["files"],
    "langfuse": REASONS["langfuse"],
}
"""Reasons by the first part of the path below `/v1`, for programs of 0.25."""


SHARED_AREAS = frozenset({"chatbots", "searchbots"})
"""Areas of shared pages, whose visitors have no API key: after status 401, the page would show them the sign-in.

The reason is also the title, because the page shows a message only for some seconds.
"""


async def refuse_missing(request: Request) -> None:
    """Refuse a request that no route handles, if it is for a part of RAGFlow that this server does not have."""
    version, _, rest = request.url.path.removeprefix("/api").strip("/").partition("/")
    area = rest.partition("/")[0]
    reasons = REASONS if request.url.path.startswith("/api/") else OLDER_REASONS
    if version != "v1" or area not in reasons or request.method not in _METHODS:
        return
    if area not in SHARED_AREAS:
        await authenticate(request)
    raise RequestError(reasons[area], data={"title": reasons[area]} if area in SHARED_AREAS else False, has_data=True)
