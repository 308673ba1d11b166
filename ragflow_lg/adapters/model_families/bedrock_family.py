"""Models on Amazon Bedrock: its Converse API, through ``langchain-aws``.

The package has only synchronous calls. botocore, below it, asks for a response before it sends a request
(``before-send``), and we answer with that of our own HTTP client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ragflow_lg.adapters.http.answer_limits import LimitedClient
from ragflow_lg.adapters.model_families.bedrock_signature import region_of
from ragflow_lg.adapters.model_families.claude_options import claude_version, sampling_names, thinking_option
from ragflow_lg.adapters.model_families.model_family import (
    FamilyEndpoint,
    ModelFamily,
    create_embeddings,
    response_format,
    select_sampling,
    stop_option,
)
from ragflow_lg.adapters.model_families.thread_calls import ThreadCalls, wait_in_loop
from ragflow_lg.services.chat import ChatRequest

if TYPE_CHECKING:
    import httpx

SERVICE = "bedrock-runtime"
_THREADS = 64


class BedrockFamily(ModelFamily):
    """Bedrock. Without a key, requests are signed with the credentials that AWS's own tools find."""

    end_reason = "stopReason"

    def __init__(self, endpoint: FamilyEndpoint) -> None:
        super().__init__(endpoint)
        self._threads = ThreadCalls(_THREADS)
        self._client: Any = None

    def make_chat(self, model: str) -> Any:
        """Return a ``ChatBedrockConverse`` whose calls run in our threads and use our HTTP client."""
        from ragflow_lg.adapters.model_families.bedrock_chat import make_bedrock_chat

        return make_bedrock_chat(model, self._open(), self._threads)

    def make_embeddings(self, model: str) -> Any:
        """Return a ``BedrockEmbeddings`` that uses our HTTP client."""
        return create_embeddings(model, "bedrock", client=self._open(), region_name=self._region)

    async def embed_texts(self, embeddings: Any, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of chunks, in order."""
        return await self._threads.run(lambda: embeddings.embed_documents(list(texts)))

    async def embed_question(self, embeddings: Any, text: str) -> list[float]:
        """Return the vector of a question."""
        return await self._threads.run(lambda: embeddings.embed_query(text))

    @property
    def _region(self) -> str:
        return region_of(self.endpoint.base_url)

    def _open(self) -> Any:
        """Return botocore's client, which signs requests, reads responses and sends nothing itself."""
        if self._client is not None:
            return self._client
        from botocore.config import Config
        from botocore.session import Session
        from botocore.tokens import FrozenAuthToken

        key = self.endpoint.api_key

        class KeySession(Session):
            def get_auth_token(self, **_: Any) -> Any:
                return FrozenAuthToken(key)

        session: Any = KeySession() if key else Session()
        self._client = session.create_client(
            SERVICE,
            region_name=self._region,
            endpoint_url=self.endpoint.base_url.rstrip("/"),
            config=Config(retries={"total_max_attempts": 1}, **({"signature_version": "bearer"} if key else {})),
        )
        self._connections = LimitedClient(timeout=self.endpoint.timeout_s, follow_redirects=False)
        self._client.meta.events.register(f"before-send.{SERVICE}", self._send)
        return self._client

    def _send(self, request: Any, **_: Any) -> Any:
        """Return the response to a signed request, for botocore."""
        from botocore.awsrequest import AWSResponse

        message = self._connections.build_request(
            request.method, request.url, headers=list(request.headers.items()), content=request.body
        )
        response = wait_in_loop(self._connections.send(message, stream=True))
        return AWSResponse(request.url, response.status_code, dict(response.headers), _Body(response))

    def options(self, model: str, request: ChatRequest) -> dict[str, Any]:
        """Return the options."""
        thinking = thinking_option(model, request) if claude_version(model) else None
        sampling = select_sampling(request, sampling_names(model, thinking))
        if claude_version(model) and "temperature" in sampling:
            sampling.pop("top_p", None)
        return {
            **sampling,
            **stop_option(request),
            **response_format(request),
            **({"additional_model_request_fields": {"thinking": thinking}} if thinking else {}),
        }

    async def aclose(self) -> None:
        """Close the connections, and let the threads end."""
        self._client = None
        self._threads.close()
        self._threads = ThreadCalls(_THREADS)
        await super().aclose()


class _Body:
    """The body of a response, as botocore reads it in a thread."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        """Yield the pieces of the body."""
        pieces = self._response.aiter_raw()
        try:
            while (piece := wait_in_loop(_next(pieces))) is not None:
                yield piece
        finally:
            self.close()

    def read(self, amt: int | None = None, **_: Any) -> bytes:
        """Return the whole body once, then nothing."""
        return b"" if self._response.is_closed else b"".join(self.stream())

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        if not self._response.is_closed:
            wait_in_loop(self._response.aclose())


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)
