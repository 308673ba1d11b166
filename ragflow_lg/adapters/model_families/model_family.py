"""What the families have in common."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, cast

from msgspec import Struct

from ragflow_lg.services.chat import ChatRequest


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
