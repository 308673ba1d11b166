"""Gemini on Google's own API and on Vertex AI, through ``langchain-google-genai``."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from ragflow_lg.adapters.http.answer_limits import limit_hooks
from ragflow_lg.adapters.model_families.model_family import (
    FamilyEndpoint,
    ModelFamily,
    create_chat,
    create_embeddings,
    select_sampling,
    stop_option,
)
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.chat import ChatRequest

_NAMES = {name: name for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty")}
_NAMES["max_tokens"] = "max_output_tokens"
_NO_THINKING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gemini-2.5-pro", {"thinking_budget": 128}),
    ("gemini-2.5", {"thinking_budget": 0}),
    ("gemini-3", {"thinking_level": "low"}),
)
"""The options with which models think least. Not all of them can answer without thinking."""
_PROJECT, _LOCATION = "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"
_responses: ContextVar[list[Any]] = ContextVar("_responses")
"""The responses of the current call. The library closes a stream that nobody reads only when garbage is collected."""
_VERTEX_DOMAIN = "aiplatform.googleapis.com"


async def _remember(response: Any) -> None:
    responses = _responses.get(None)
    if responses is not None:
        responses[:] = [response]  # an earlier attempt has ended


class GoogleFamily(ModelFamily):
    """Gemini. Addresses of ``aiplatform.googleapis.com`` belong to Vertex AI.

    Vertex AI takes an API key, or the application's default credentials for ``GOOGLE_CLOUD_PROJECT`` and
    ``GOOGLE_CLOUD_LOCATION``.
    """

    def __init__(self, endpoint: FamilyEndpoint) -> None:
        super().__init__(endpoint)
        self._clients: list[Any] = []

    def make_chat(self, model: str) -> Any:
        """Return a ``ChatGoogleGenerativeAI`` whose HTTP client has our limits."""
        chat: Any = create_chat(model, "google_genai", max_retries=1, **self._options())
        chat.client = self._make_client()
        return chat

    def make_embeddings(self, model: str) -> Any:
        """Return a ``GoogleGenerativeAIEmbeddings`` whose HTTP client has our limits."""
        embeddings: Any = create_embeddings(model, "google_genai", **self._options())
        embeddings.client = self._make_client()
        return embeddings

    @property
    def _is_vertex(self) -> bool:
        host = urlsplit(self.endpoint.base_url).hostname or ""
        return host == _VERTEX_DOMAIN or host.endswith((f"-{_VERTEX_DOMAIN}", f".{_VERTEX_DOMAIN}"))

    def _options(self) -> dict[str, Any]:
        return {"api_key": self.endpoint.api_key or "none", "vertexai": False}

    def _make_client(self) -> Any:
        """Return a client that sends through ours. LangChain's own would take aiohttp if that is installed."""
        import httpx
        from google.genai.types import HttpOptions

        if self._connections is None:
            hooks = limit_hooks()
            hooks["response"].append(_remember)
            # Redirects are errors: they could send the key elsewhere.
            self._connections = httpx.AsyncClient(
                follow_redirects=False, event_hooks=hooks, timeout=self.endpoint.timeout_s
            )
        base_url = self.endpoint.base_url.rstrip("/")
        http = HttpOptions(base_url=base_url, httpx_async_client=self._connections)
        client = self._make_vertex_client(http) if self._is_vertex else self._make_gemini_client(http)
        self._clients.append(client)
        return client

    def _make_gemini_client(self, http: Any) -> Any:
        from google import genai

        http.base_url = http.base_url.removesuffix("/v1beta")
        return genai.Client(api_key=self.endpoint.api_key or "none", http_options=http)

    def _make_vertex_client(self, http: Any) -> Any:
        """Return a client for Vertex AI. LangChain's own would put the key into the environment of the process."""
        from google import genai

        if key := self.endpoint.api_key:
            return genai.Client(vertexai=True, api_key=key, http_options=http)
        project = os.environ.get(_PROJECT, "")
        if not project:
            raise SettingsError(f"Vertex AI needs a key, or the name of a project in the variable {_PROJECT}.")
        if urlsplit(self.endpoint.base_url).hostname == _VERTEX_DOMAIN:
            http.base_url = None  # that of the location
        location = os.environ.get(_LOCATION) or "global"
        return genai.Client(vertexai=True, project=project, location=location, http_options=http)

    def options(self, model: str, request: ChatRequest) -> dict[str, Any]:
        """Return the options."""
        options = {**select_sampling(request, _NAMES), **stop_option(request)}
        if request.thinking == "enabled":
            options["include_thoughts"] = True
        elif request.thinking == "disabled":
            options |= next((least for name, least in _NO_THINKING if name in model), dict[str, Any]())
        if request.schema is not None:
            options |= {"response_mime_type": "application/json", "response_json_schema": dict(request.schema)}
        return options

    @asynccontextmanager
    async def stream(self) -> AsyncGenerator[None]:
        """Surround a streamed call: at the end, its connection is free or closed."""
        responses: list[Any] = []
        _responses.set(responses)
        try:
            yield
        finally:
            for response in responses:
                await response.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        clients, self._clients = self._clients, []
        for client in clients:
            await client.aio.aclose()
        await super().aclose()
