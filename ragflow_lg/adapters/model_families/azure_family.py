"""Azure OpenAI's deployments, through ``langchain-openai``."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from ragflow_lg.adapters.http.answer_limits import LimitedClient
from ragflow_lg.adapters.model_families.model_family import (
    ModelFamily,
    create_chat,
    create_embeddings,
    response_format,
    stop_option,
)
from ragflow_lg.services.chat import ChatRequest

DEFAULT_API_VERSION = "2024-10-21"
"""The last version of the API with deployments in its paths; ``?api-version=`` in ``base_url`` replaces it."""


class AzureFamily(ModelFamily):
    """The deployments of an Azure OpenAI resource, whose names are the names of models."""

    def make_chat(self, model: str) -> Any:
        """Return an ``AzureChatOpenAI`` with our HTTP client."""
        chat_options = {"stream_usage": True, "stream_chunk_timeout": None, "use_responses_api": False}
        return create_chat(model, "azure_openai", **chat_options, **self._options(model))

    def make_embeddings(self, model: str) -> Any:
        """Return an ``AzureOpenAIEmbeddings`` with our HTTP client."""
        # Checking lengths would download a vocabulary.
        return create_embeddings(model, "azure_openai", check_embedding_ctx_length=False, **self._options(model))

    def _options(self, model: str) -> dict[str, Any]:
        endpoint, parts = self.endpoint, urlsplit(self.endpoint.base_url)
        if self._connections is None:
            self._connections = LimitedClient(timeout=endpoint.timeout_s, follow_redirects=False)
        return {
            "azure_endpoint": f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/openai')}",
            "azure_deployment": model,
            "api_version": parse_qs(parts.query).get("api-version", [DEFAULT_API_VERSION])[0],
            "api_key": endpoint.api_key or "none",
            "timeout": endpoint.timeout_s,
            "max_retries": 0,
            "http_async_client": self._connections,
        }

    def options(self, model: str, request: ChatRequest) -> dict[str, Any]:
        """Return the options, which are OpenAI's."""
        options: dict[str, Any] = {**request.sampling, **stop_option(request)}
        if "max_tokens" in options:  # the old name, which newer models refuse
            options["max_completion_tokens"] = options.pop("max_tokens")
        if body := response_format(request):
            # In the body, not as an option: LangChain would parse the answer itself.
            options["extra_body"] = body
        return options
