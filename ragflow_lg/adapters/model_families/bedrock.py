"""Models on Amazon Bedrock: its Converse API, through ``langchain-aws``, and signatures of requests.

The package has only synchronous calls, which run in threads. botocore, below it, asks for a response before it sends a
request (``before-send``); the thread then waits for that of our own HTTP client in the event loop, which ends at once
when the caller is cancelled. The threads are not those of the event loop, which others wait for.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar, copy_context
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from ragflow_lg.adapters.model_families.claude_options import claude_version, sampling_names, thinking_option
from ragflow_lg.adapters.model_families.model_family import (
    FamilyEndpoint,
    ModelFamily,
    create_embeddings,
    response_format,
    select_sampling,
    stop_option,
)
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.services.chat import ChatRequest

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

DEFAULT_REGION = "us-east-1"
"""The region in signatures for addresses that name none, such as a proxy's."""
_SERVICE = "bedrock"
SERVICE = "bedrock-runtime"
_THREADS = 64
_QUEUED = 16
"""How many chunks a thread may be ahead of their reader."""
_REGION = re.compile(r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d)\.")


def region_of(base_url: str) -> str:
    """Return the region that an address names, or the default.

    >>> region_of("https://bedrock-runtime.eu-central-1.amazonaws.com")
    'eu-central-1'
    """
    found = _REGION.search(urlsplit(base_url).hostname or "")
    return found[1] if found else DEFAULT_REGION


class BedrockSigner:
    """Signs requests with the credentials that AWS's own tools find. It blocks: call it in a thread."""

    def __init__(self, purpose: str) -> None:
        """Initialize it. ``purpose`` starts error messages: what needs the credentials."""
        self._purpose = purpose
        self._credentials: Any = None

    def sign(self, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers of a POST request with a JSON body.

        Raises:
            SettingsError: if there are no credentials, or the extra is missing.
        """
        require("bedrock", self._purpose)
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session

        session, sign_v4 = Session(), cast("Any", SigV4Auth)
        request = AWSRequest("POST", url, data=body, headers={"Content-Type": "application/json"})
        try:
            if self._credentials is None:
                self._credentials = cast("Any", session).get_credentials()
            if self._credentials is None:
                raise SettingsError(
                    f"{self._purpose} needs a key in AWS_BEARER_TOKEN_BEDROCK, or credentials of AWS. Set one of them."
                )
            sign_v4(self._credentials.get_frozen_credentials(), _SERVICE, region_of(url)).add_auth(request)
        except BotoCoreError as error:
            raise SettingsError(f"{self._purpose} finds no credentials of AWS: {error}") from error
        return dict(request.headers.items())


class _Call:
    """One call in a thread, and what it has begun in the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: concurrent.futures.Future[Any] | None = None
        self._is_over = False
        self.responses: list[httpx.Response] = []

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work in the event loop and return its result to the thread."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._waiting = future
        if self._is_over:
            future.cancel()
        return future.result()

    async def end(self) -> None:
        """Cancel whatever the thread waits for, now and later, and close the connection."""
        self._is_over = True
        if self._waiting is not None:
            self._waiting.cancel()
        for response in self.responses:
            await response.aclose()


_call: ContextVar[_Call] = ContextVar("_call")


class ModelThreads:
    """Threads for the calls of one endpoint."""

    def __init__(self) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(_THREADS, "model")

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of a function."""
        call, context = _Call(), copy_context()
        context.run(_call.set, call)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, context.run, function)
        finally:
            await call.end()

    async def iterate(self, make: Callable[[], Iterable[T]]) -> AsyncGenerator[T]:
        """Yield what an iterable yields. The thread waits for a slow reader."""
        queue: asyncio.Queue[tuple[T] | None] = asyncio.Queue()
        room = asyncio.Semaphore(_QUEUED)

        async def put(item: T) -> None:
            await room.acquire()
            queue.put_nowait((item,))

        def produce() -> None:
            for item in make():
                _call.get().wait(put(item))

        producing = asyncio.create_task(self.run(produce))
        producing.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (entry := await queue.get()) is not None:
                room.release()
                yield entry[0]
            await producing
        finally:
            producing.cancel()

    def close(self) -> None:
        """End the threads after their calls."""
        self._executor.shutdown(wait=False, cancel_futures=True)


@lru_cache
def _make_chat_class() -> Any:
    """Return ``ChatBedrockConverse`` whose asynchronous calls run in our threads. The import takes about a second."""
    from langchain_aws import ChatBedrockConverse
    from pydantic import Field

    class BedrockChat(ChatBedrockConverse):
        threads: Any = Field(exclude=True)

        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            return await self.threads.run(lambda: self._generate(messages, stop, None, **kwargs))

        async def _astream(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> AsyncIterator[Any]:
            async with aclosing(self.threads.iterate(lambda: self._stream(messages, stop, None, **kwargs))) as chunks:
                async for chunk in chunks:
                    yield chunk

    return BedrockChat


class BedrockFamily(ModelFamily):
    """Bedrock. Without a key, requests are signed with the credentials that AWS's own tools find."""

    title = "Amazon Bedrock"
    needs_key = False
    end_reason = "stopReason"

    def __init__(self, endpoint: FamilyEndpoint) -> None:
        super().__init__(endpoint)
        self._threads = ModelThreads()
        self._client: Any = None

    def make_chat(self, model: str) -> Any:
        """Return a ``ChatBedrockConverse`` whose calls run in our threads and use our HTTP client."""
        client = self._open()
        return _make_chat_class()(model=model, client=client, bedrock_client=client, threads=self._threads)

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

        from ragflow_lg.adapters.http.answer_limits import LimitedClient

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
        call = _call.get()
        response = call.wait(self._connections.send(message, stream=True))
        call.responses.append(response)
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
        self._threads = ModelThreads()
        await super().aclose()


class _Body:
    """The body of a response, as botocore reads it in a thread."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        """Yield the pieces of the body."""
        pieces = self._response.aiter_raw()
        while (piece := _call.get().wait(_next(pieces))) is not None:
            yield piece

    def read(self, amt: int | None = None, **_: Any) -> bytes:
        """Return the whole body once, then nothing."""
        return b"" if self._response.is_closed else b"".join(self.stream())

    def close(self) -> None:
        """Do nothing: the end of the call closes the connection."""


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)
