"""Embedding models of the families: LangChain's clients, with the batches, retries and checks of other endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ragflow_lg.adapters.knowledge.model_endpoint import EndpointSettings
from ragflow_lg.adapters.model_families.client_failures import describe_failure
from ragflow_lg.adapters.model_families.families import FAMILIES, open_family
from ragflow_lg.adapters.model_families.model_family import FamilyEndpoint, ModelFamily
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.foreign_text import foreign_line

T = TypeVar("T")

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
_MAX_DETAIL_CHARS = 300


class FamilyEmbeddings:
    """The client of one embedding model. Close it to close its connections."""

    def __init__(self, id_: str, settings: EndpointSettings, family_name: str) -> None:
        """Initialize it.

        Raises:
            SettingsError: if the family has no embedding models, or its packages are not installed.
        """
        self._name = f'embedding model [embeddings."{id_}"]'
        self._settings = settings
        family = FAMILIES[family_name]
        if not family.has_embeddings:
            raise SettingsError(f"The {self._name} cannot be used: {family.title} has no embedding models.")
        endpoint = FamilyEndpoint(settings.base_url, settings.api_key, settings.timeout_s)
        self._family: ModelFamily = open_family(family_name, endpoint)
        self._embeddings: Any = None
        self._lock = asyncio.Lock()

    async def embed(self, texts: Sequence[str], *, is_question: bool) -> list[list[float]]:
        """Return the vectors of texts, in order. Temporary failures are retried.

        Raises:
            ServiceError: if the endpoint fails.
        """
        if is_question:
            return [await self._retry(lambda client: self._family.embed_question(client, texts[0]))]
        return await self._retry(lambda client: self._family.embed_texts(client, texts))

    async def _retry(self, call: Callable[[Any], Awaitable[T]]) -> T:
        pause_s = _FIRST_PAUSE_S
        for is_last in (*[False] * self._settings.max_retries, True):
            try:
                return await self._call(call)
            except ServiceError as error:
                if is_last or not error.is_retryable or error.retry_after_s > _LONGEST_PAUSE_S:
                    raise
                await asyncio.sleep(max(error.retry_after_s, pause_s))
                pause_s *= 2
        raise AssertionError

    async def _call(self, call: Callable[[Any], Awaitable[T]]) -> T:
        settings = self._settings
        try:
            async with self._lock:
                if self._embeddings is None:
                    self._embeddings = await asyncio.to_thread(self._family.make_embeddings, settings.model)
            async with asyncio.timeout(settings.timeout_s):
                return await call(self._embeddings)
        except TimeoutError:
            text = f"The {self._name} did not answer within {settings.timeout_s:g} s."
            raise ServiceError(text, is_retryable=True) from None
        except Exception as error:  # noqa: BLE001 - any client may raise anything
            failure = describe_failure(error, settings.base_url)
            text = foreign_line(failure.text, [settings.api_key], _MAX_DETAIL_CHARS).rstrip(".")
            raise ServiceError(
                f"The {self._name} {text}.", is_retryable=failure.is_retryable, retry_after_s=failure.retry_after_s
            ) from None

    async def aclose(self) -> None:
        """Close the connections."""
        self._embeddings = None
        await self._family.aclose()
