"""Anthropic's Messages API, through ``langchain-anthropic``."""

from __future__ import annotations

from typing import Any

from ragflow_lg.adapters.http.answer_limits import limit_hooks
from ragflow_lg.adapters.model_families.claude_options import sampling_names, thinking_option
from ragflow_lg.adapters.model_families.model_family import (
    ModelFamily,
    create_chat,
    response_format,
    select_sampling,
    stop_option,
)
from ragflow_lg.services.chat import ChatRequest

CLIENT = "_async_client"
"""The cached property of ``ChatAnthropic`` with its client. The class has no parameter for an HTTP client."""

_MAX_TEMPERATURE = 1.0


class AnthropicFamily(ModelFamily):
    """Claude on Anthropic's API, or on an endpoint with the same API."""

    end_reason = "stop_reason"

    def make_chat(self, model: str) -> Any:
        """Return a ``ChatAnthropic`` with our HTTP client."""
        import anthropic
        import httpx2

        endpoint, base_url = self.endpoint, self.endpoint.base_url.rstrip("/").removesuffix("/v1")
        if self._connections is None:
            # Redirects are errors: they could send the key elsewhere.
            self._connections = httpx2.AsyncClient(
                timeout=endpoint.timeout_s, follow_redirects=False, event_hooks=limit_hooks()
            )
        options: dict[str, Any] = {
            "base_url": base_url,
            "api_key": endpoint.api_key or "none",
            "timeout": endpoint.timeout_s,
            "max_retries": 0,
        }
        chat = create_chat(model, "anthropic", **options)
        vars(chat)[CLIENT] = anthropic.AsyncAnthropic(http_client=self._connections, **options)
        return chat

    def options(self, model: str, request: ChatRequest) -> dict[str, Any]:
        """Return the options. There are no penalties, and newer models refuse a temperature together with top_p."""
        thinking = thinking_option(model, request)
        sampling = select_sampling(request, sampling_names(model, thinking))
        if "temperature" in sampling:
            sampling["temperature"] = min(sampling["temperature"], _MAX_TEMPERATURE)
            sampling.pop("top_p", None)
        return {
            **sampling,
            **stop_option(request),
            **response_format(request),
            **({"thinking": thinking} if thinking else {}),
        }
