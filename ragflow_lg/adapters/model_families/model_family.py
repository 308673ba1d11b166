"""The families of models whose APIs are not OpenAI's, each through the package that LangChain has for it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from ragflow_lg.adapters.model_families.claude_options import sampling_names, thinking_option
from ragflow_lg.base.errors import ForeignJsonError, SettingsError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.services.chat import ChatRequest

if TYPE_CHECKING:
    import httpx

_SAMPLING = {name: name for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty")}


class FamilyEndpoint(Struct, frozen=True):
    """The endpoint of a family's models."""

    base_url: str
    api_key: str = ""
    timeout_s: float = 600.0

    def __repr__(self) -> str:
        """Return the endpoint without the key."""
        return f"{type(self).__name__}({self.base_url!r})"


class ModelFamily:
    """The LangChain clients for one endpoint. Close it to close their connections.

    Clients never retry: the callers do, because they respect Retry-After and cancellation.
    """

    title: ClassVar[str]
    needs_key: ClassVar[bool] = True
    """Whether its servers refuse all requests without a key. Others take other credentials, or none."""
    has_embeddings: ClassVar[bool] = True
    end_reason: ClassVar[str] = "finish_reason"
    """The ``response_metadata`` that marks the end of a streamed answer; an answer without it was interrupted."""
    is_ollama: ClassVar[bool] = False
    """Whether its servers have the API of Ollama, which tells the windows of models."""

    def __init__(self, endpoint: FamilyEndpoint) -> None:
        self.endpoint = endpoint
        self._connections: Any = None
        """The HTTP client or transport for all models, from the first one on."""

    def make_chat(self, model: str) -> Any:
        """Return a new chat model of LangChain. The first call imports the package, which takes up to seconds."""
        raise NotImplementedError

    def make_embeddings(self, model: str) -> Any:
        """Return a new embedding model of LangChain, as with `make_chat`."""
        raise NotImplementedError

    def options(self, model: str, request: ChatRequest) -> dict[str, Any]:
        """Return the call options of a request: sampling, stop texts, thinking and the schema of the answer."""
        raise NotImplementedError

    async def embed_texts(self, embeddings: Any, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of chunks, in order."""
        return await embeddings.aembed_documents(list(texts))

    async def embed_question(self, embeddings: Any, text: str) -> list[float]:
        """Return the vector of a question. Some models embed questions and chunks differently."""
        return await embeddings.aembed_query(text)

    @asynccontextmanager
    async def stream(self) -> AsyncGenerator[None]:
        """Surround a streamed call: at the end, its connection is free or closed."""
        yield

    async def aclose(self) -> None:
        """Close the connections."""
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.aclose()


def create_chat(model: str, provider: str, **options: Any) -> Any:
    """Return the chat model that LangChain has for one of its providers."""
    from langchain.chat_models import init_chat_model

    return cast("Any", init_chat_model)(model, model_provider=provider, **options)


def create_embeddings(model: str, provider: str, **options: Any) -> Any:
    """Return the embedding model that LangChain has for one of its providers."""
    from langchain.embeddings import init_embeddings

    return cast("Any", init_embeddings)(model, provider=provider, **options)


def select_sampling(request: ChatRequest, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the sampling parameters that a family has, under its own names.

    >>> select_sampling(ChatRequest("", (), {"top_p": 0.5, "max_tokens": 9}), {"max_tokens": "num_predict"})
    {'num_predict': 9}
    """
    return {names[name]: value for name, value in request.sampling.items() if name in names}


def response_format(request: ChatRequest) -> dict[str, Any]:
    """Return the schema of the answer as OpenAI's ``response_format``, which several packages translate, or ``{}``."""
    if request.schema is None:
        return {}
    schema = {"name": "answer", "schema": dict(request.schema)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def stop_option(request: ChatRequest) -> dict[str, Any]:
    """Return the stop texts as LangChain's ``stop``, or ``{}``."""
    return {"stop": list(request.stop)} if request.stop else {}


CLIENT = "_async_client"
"""The cached property of ``ChatAnthropic`` with its client. The class has no parameter for an HTTP client."""

_MAX_TEMPERATURE = 1.0


class AnthropicFamily(ModelFamily):
    """Claude on Anthropic's API, or on an endpoint with the same API."""

    title = "Anthropic's API"
    has_embeddings = False
    end_reason = "stop_reason"

    def make_chat(self, model: str) -> Any:
        """Return a ``ChatAnthropic`` with our HTTP client."""
        import anthropic
        import httpx2

        from ragflow_lg.adapters.http.answer_limits import limit_hooks
        from ragflow_lg.adapters.http.certificates import trusted_certificates

        endpoint, base_url = self.endpoint, self.endpoint.base_url.rstrip("/").removesuffix("/v1")
        if self._connections is None:
            # Redirects are errors: they could send the key elsewhere.
            self._connections = httpx2.AsyncClient(
                verify=trusted_certificates(),
                timeout=endpoint.timeout_s,
                follow_redirects=False,
                event_hooks=limit_hooks(),
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


DEFAULT_API_VERSION = "2024-10-21"
"""The last version of the API with deployments in its paths; ``?api-version=`` in ``base_url`` replaces it."""


class AzureFamily(ModelFamily):
    """The deployments of an Azure OpenAI resource, whose names are the names of models."""

    title = "Azure OpenAI"

    def make_chat(self, model: str) -> Any:
        """Return an ``AzureChatOpenAI`` with our HTTP client."""
        chat_options = {"stream_usage": True, "stream_chunk_timeout": None, "use_responses_api": False}
        return create_chat(model, "azure_openai", **chat_options, **self._options(model))

    def make_embeddings(self, model: str) -> Any:
        """Return an ``AzureOpenAIEmbeddings`` with our HTTP client."""
        # Checking lengths would download a vocabulary.
        return create_embeddings(model, "azure_openai", check_embedding_ctx_length=False, **self._options(model))

    def _options(self, model: str) -> dict[str, Any]:
        from ragflow_lg.adapters.http.answer_limits import LimitedClient

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


_GOOGLE_NAMES = {**_SAMPLING, "max_tokens": "max_output_tokens"}
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

    title = "Google's API"
    needs_key = False

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

        from ragflow_lg.adapters.http.answer_limits import limit_hooks
        from ragflow_lg.adapters.http.certificates import trusted_certificates

        if self._connections is None:
            hooks = limit_hooks()
            hooks["response"].append(_remember)
            # Redirects are errors: they could send the key elsewhere.
            self._connections = httpx.AsyncClient(
                verify=trusted_certificates(),
                timeout=self.endpoint.timeout_s,
                follow_redirects=False,
                event_hooks=hooks,
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
        options = {**select_sampling(request, _GOOGLE_NAMES), **stop_option(request)}
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


_OLLAMA_NAMES = {**_SAMPLING, "max_tokens": "num_predict"}
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
    title = "Ollama's API"
    needs_key = False
    is_ollama = True

    def make_chat(self, model: str) -> Any:
        """Return a ``ChatOllama`` whose HTTP client has our limits."""
        return create_chat(model, "ollama", **self._options())

    def make_embeddings(self, model: str) -> Any:
        """Return an ``OllamaEmbeddings`` whose HTTP client has our limits."""
        return create_embeddings(model, "ollama", **self._options())

    def _options(self) -> dict[str, Any]:
        import httpx

        from ragflow_lg.adapters.http.answer_limits import limit_hooks

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
        sampling = select_sampling(request, _OLLAMA_NAMES)
        if request.stop:
            sampling["stop"] = list(request.stop)
        options = {**response_format(request), **({"options": sampling} if sampling else {})}
        if request.thinking in _THINKING:
            options["reasoning"] = _THINKING[request.thinking]
        return options
