"""Ollama's own API, through ``langchain-ollama``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragflow_lg.adapters.http.answer_limits import limit_hooks
from ragflow_lg.adapters.model_families.model_family import (
    ModelFamily,
    create_chat,
    create_embeddings,
    response_format,
    select_sampling,
)
from ragflow_lg.base.errors import ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.services.chat import ChatRequest

if TYPE_CHECKING:
    import httpx

_NAMES = {name: name for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty")}
_NAMES["max_tokens"] = "num_predict"
_THINKING = {"enabled": True, "disabled": False}


class OllamaRefusalError(Exception):
    """An Ollama server has refused a request. Ollama's own exception does not contain the headers of the response."""

    def __init__(self, response: httpx.Response, message: str) -> None:
        super().__init__(message)
        self.response = response
        self.status_code = response.status_code
        self.message = message


async def _refuse(response: httpx.Response) -> None:
    """Raise OllamaRefusalError for every response that is not an answer."""
    if response.status_code < 300:
        return
    text = (await response.aread()).decode("utf-8", "replace")
    try:
        message = str(parse_foreign_json(text)["error"])
    except (ForeignJsonError, TypeError, LookupError):
        message = text
    raise OllamaRefusalError(response, message)


class OllamaFamily(ModelFamily):
    """Models on an Ollama server."""

    end_reason = "done_reason"
    is_ollama = True

    def make_chat(self, model: str) -> Any:
        """Return a ``ChatOllama`` whose HTTP client has our limits."""
        return create_chat(model, "ollama", **self._options())

    def make_embeddings(self, model: str) -> Any:
        """Return an ``OllamaEmbeddings`` whose HTTP client has our limits."""
        return create_embeddings(model, "ollama", **self._options())

    def _options(self) -> dict[str, Any]:
        import httpx

        key, hooks = self.endpoint.api_key, limit_hooks()
        if self._connections is None:
            self._connections = httpx.AsyncHTTPTransport()
        return {
            "base_url": self.endpoint.base_url.rstrip("/"),
            "client_kwargs": {"headers": {"authorization": f"Bearer {key}"} if key else {}},
            # Redirects are errors: they could send the key elsewhere.
            "async_client_kwargs": {
                "follow_redirects": False,
                "event_hooks": {**hooks, "response": [*hooks["response"], _refuse]},
                "timeout": self.endpoint.timeout_s,
                "transport": self._connections,
            },
        }

    def options(self, model: str, request: ChatRequest) -> dict[str, Any]:
        """Return the options. Ollama takes sampling parameters and stop texts in ``options``."""
        sampling = select_sampling(request, _NAMES)
        if request.stop:
            sampling["stop"] = list(request.stop)
        options = {**response_format(request), **({"options": sampling} if sampling else {})}
        if request.thinking in _THINKING:
            options["reasoning"] = _THINKING[request.thinking]
        return options
