"""Models on Amazon Bedrock: its Converse API, through ``langchain-aws``, and signatures of requests.

The package has only synchronous calls. They run in threads of their own: others wait for those of the event loop. If a
call is cancelled, its thread ends with the next piece of the answer.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, TypeVar, cast
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

T = TypeVar("T")

DEFAULT_REGION = "us-east-1"
"""The region in signatures for addresses that name none, such as a proxy's."""
_SERVICE = "bedrock"
SERVICE = "bedrock-runtime"
_THREADS = 64
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


@lru_cache
def _make_chat_class() -> Any:
    """Return ``ChatBedrockConverse`` whose asynchronous calls run in our threads. The import takes about a second."""
    from langchain_aws import ChatBedrockConverse
    from pydantic import Field

    class BedrockChat(ChatBedrockConverse):
        call: Any = Field(exclude=True)

        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            return await self.call(self._generate, messages, stop, None, **kwargs)

        async def _astream(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
        ) -> AsyncIterator[Any]:
            chunks = self._stream(messages, stop, None, **kwargs)
            while (chunk := await self.call(next, chunks, None)) is not None:
                yield chunk

    return BedrockChat


class BedrockFamily(ModelFamily):
    """Bedrock. Without a key, requests are signed with the credentials that AWS's own tools find."""

    end_reason = "stopReason"

    def __init__(self, endpoint: FamilyEndpoint) -> None:
        super().__init__(endpoint)
        self._threads = ThreadPoolExecutor(_THREADS, "model")
        self._client: Any = None

    def make_chat(self, model: str) -> Any:
        """Return a ``ChatBedrockConverse`` whose calls run in our threads."""
        client = self._open()
        return _make_chat_class()(model=model, client=client, bedrock_client=client, call=self._call)

    def make_embeddings(self, model: str) -> Any:
        """Return a ``BedrockEmbeddings``."""
        return create_embeddings(model, "bedrock", client=self._open(), region_name=self._region)

    async def embed_texts(self, embeddings: Any, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of chunks, in order."""
        return await self._call(embeddings.embed_documents, list(texts))

    async def embed_question(self, embeddings: Any, text: str) -> list[float]:
        """Return the vector of a question."""
        return await self._call(embeddings.embed_query, text)

    async def _call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a function in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *args, **kwargs))

    @property
    def _region(self) -> str:
        return region_of(self.endpoint.base_url)

    def _open(self) -> Any:
        """Return botocore's client, which signs and sends requests."""
        if self._client is not None:
            return self._client
        from botocore.config import Config
        from botocore.session import Session
        from botocore.tokens import FrozenAuthToken

        key, timeout_s = self.endpoint.api_key, self.endpoint.timeout_s

        class KeySession(Session):
            def get_auth_token(self, **_: Any) -> Any:
                return FrozenAuthToken(key)

        session: Any = KeySession() if key else Session()
        self._client = session.create_client(
            SERVICE,
            region_name=self._region,
            endpoint_url=self.endpoint.base_url.rstrip("/"),
            verify=os.environ.get("SSL_CERT_FILE"),  # as for the other families
            config=Config(
                connect_timeout=timeout_s,
                read_timeout=timeout_s,
                max_pool_connections=_THREADS,
                retries={"total_max_attempts": 1},
                **({"signature_version": "bearer"} if key else {}),
            ),
        )
        return self._client

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
        if self._client is not None:
            self._client.close()
            self._client = None
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._threads = ThreadPoolExecutor(_THREADS, "model")
