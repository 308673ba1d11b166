"""Embedding models: LangChain's clients of endpoints, the local one, none at all, and the choice of a dataset's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from ragflow_lg.adapters.http.answer_limits import LimitedClient
from ragflow_lg.adapters.knowledge.words import contains_unspaced
from ragflow_lg.adapters.model_endpoint import EmbeddingSettings, ModelEndpoint, find_model_id, list_models
from ragflow_lg.adapters.model_families.client_failures import describe_failure
from ragflow_lg.adapters.model_families.families import FAMILIES, open_family
from ragflow_lg.adapters.model_families.model_family import FamilyEndpoint, ModelFamily
from ragflow_lg.base.blocking_calls import run_blocking
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.services.knowledge import Embedder

LOCAL_MODEL, KEYWORDS = "wordllama", "keywords"
"""The embedding model ids of datasets that need no settings: the model of the extra ``local-embeddings``, and none."""

MAX_QUESTION_CHARS = 6_000
"""Maximum length of an embedded question: models accept about 8,000 tokens, and a character may take more than one."""

_LONGEST_PAUSE_S = 60.0
_TOO_LARGE = 1e15
"""Larger numbers could overflow in float32 products."""


class _OpenAIFamily(ModelFamily):
    """Any server that is compatible with OpenAI's API. LangChain's client ignores the order that an answer states."""

    def make_embeddings(self, model: str) -> Any:
        from openai import AsyncOpenAI

        endpoint = self.endpoint
        self._connections = LimitedClient(timeout=endpoint.timeout_s, follow_redirects=False)
        options: dict[str, Any] = {"base_url": endpoint.base_url, "api_key": endpoint.api_key or "none"}
        client: Any = AsyncOpenAI(**options, max_retries=0, http_client=self._connections).embeddings
        # Not all servers know base64, the client's own format.
        return partial(client.create, model=model, encoding_format="float")

    async def embed_texts(self, embeddings: Any, texts: Sequence[str]) -> list[list[float]]:
        answer = await embeddings(input=texts)
        return [row.embedding for row in sorted(answer.data, key=lambda row: row.index or 0)]

    async def embed_question(self, embeddings: Any, text: str) -> list[float]:
        return (await self.embed_texts(embeddings, [text]))[0]


class EndpointEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` for ``[embeddings."ID"]``."""

    def __init__(self, id_: str, settings: EmbeddingSettings) -> None:
        """Initialize it.

        Raises:
            SettingsError: if the family has no embedding models, or its packages are not installed.
        """
        self.vector_model = settings.model or id_
        self._settings = settings
        self._batch = settings.batch
        name = f'embedding model [embeddings."{id_}"]'
        self._endpoint = ModelEndpoint(name, settings, longest_pause_s=_LONGEST_PAUSE_S)
        family = FAMILIES.get(settings.family)
        if family is not None and not family.has_embeddings:
            raise SettingsError(f"The {name} cannot be used: {family.title} has no embedding models.")
        self._is_key_optional = family is not None and not family.needs_key
        endpoint = FamilyEndpoint(settings.base_url, settings.api_key, settings.timeout_s)
        self._family = open_family(settings.family, endpoint) if family else _OpenAIFamily(endpoint)
        self._client: Any = None
        self._lock = asyncio.Lock()

    async def aclose(self) -> None:
        """Close the connections."""
        self._client = None
        await self._family.aclose()

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector of a question."""
        return (await self._embed([text[:MAX_QUESTION_CHARS]], is_question=True))[0]

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of chunks, in order. After a request that takes too long, all have half as many texts."""
        vectors: list[Sequence[float]] = []
        while batch := texts[len(vectors) :][: self._batch]:
            try:
                vectors += await self._embed(batch)
            except TimeoutError:
                self._batch = min(self._batch, len(batch) // 2)
        return vectors

    async def _embed(self, texts: Sequence[str], *, is_question: bool = False) -> Sequence[Sequence[float]]:
        self._endpoint.require_key(is_optional=self._is_key_optional)
        # Most endpoints reject an empty text; RAGFlow embeds the word None instead.
        texts = [text if text.strip() else "None" for text in texts]
        vectors = await self._endpoint.retry(lambda: self._attempt(texts, is_question))
        if len(vectors) != len(texts):
            raise self._endpoint.failure(f"returned {len(vectors)} vectors for {len(texts)} texts")
        dims = self._settings.dims or len(vectors[0])
        if wrong := next((vector for vector in vectors if len(vector) != dims), None):
            raise self._endpoint.failure(f"returned a vector of {len(wrong)} numbers instead of {dims}")
        if not dims or not all(abs(number) < _TOO_LARGE for vector in vectors for number in vector):
            raise self._endpoint.failure("returned a vector that is empty or contains invalid numbers")
        return vectors

    async def _attempt(self, texts: Sequence[str], is_question: bool) -> list[list[float]]:
        try:
            async with self._lock:
                if self._client is None:
                    self._client = await asyncio.to_thread(self._family.make_embeddings, self._settings.model)
            async with asyncio.timeout(self._settings.timeout_s):
                if is_question:
                    vectors = [await self._family.embed_question(self._client, texts[0])]
                else:
                    vectors = await self._family.embed_texts(self._client, texts)
            return [[*map(float, vector)] for vector in vectors]
        except TimeoutError:
            if len(texts) > 1:
                raise
            what = f"did not answer within {self._settings.timeout_s:g} s, even to one text, whatever batch is"
            raise self._endpoint.failure(what, is_retryable=True) from None
        except Exception as error:  # noqa: BLE001 - any client may raise anything
            failure = describe_failure(error, self._settings.base_url)
            raise self._endpoint.failure(
                self._endpoint.excerpt(failure.text),
                is_retryable=failure.is_retryable,
                retry_after_s=failure.retry_after_s,
            ) from None


class LocalEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder`: sums of the word vectors in the package ``wordllama``.

    The package's own loader is not used: it configures logging, writes a cache and may ask a hub for files.
    """

    vector_model = LOCAL_MODEL

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector of a question. The model does not know scripts without spaces."""
        return () if contains_unspaced(text) else (await self.embed_chunks([text[:MAX_QUESTION_CHARS]]))[0]

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of chunks, in order."""
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        tokenizer, weights = _load_local_model()
        # One by one: `encode_batch` starts threads, and complains when the process forks later.
        words = (tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
        return [weights[each].sum(axis=0, dtype="f4").tolist() for each in words]


@lru_cache(maxsize=1)
def _load_local_model() -> tuple[Any, Any]:
    """Return the tokenizer, and the vectors of its words."""
    require("local-embeddings", f"The embedding model {LOCAL_MODEL!r}")
    from tokenizers import Tokenizer

    spec = find_spec("wordllama")
    folder = Path(next(iter((spec and spec.submodule_search_locations) or ())))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tensors: Any = import_module("safetensors.numpy")  # untyped
    return tokenizer, tensors.load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]


class NoEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` for datasets that are searched by keywords alone."""

    vector_model = KEYWORDS

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return an empty vector."""
        return ()

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return empty vectors."""
        return [()] * len(texts)


_WITHOUT_SETTINGS: Mapping[str, type[LocalEmbedder | NoEmbedder]] = {LOCAL_MODEL: LocalEmbedder, KEYWORDS: NoEmbedder}


class ConfiguredEmbedders:
    """The `Embedders` from the settings. ``default`` is the id for new datasets; ``""``: the local model, or none."""

    def __init__(
        self,
        settings: Mapping[str, EmbeddingSettings],
        *,
        default: str = "",
        find_known: Callable[[str], EmbeddingSettings | None] = lambda _: None,
    ) -> None:
        """Initialize. ``find_known`` returns the settings for models that need no section."""
        self._settings = settings
        self._find_known = find_known
        self._embedders: dict[str, EndpointEmbedder] = {}
        self.default = default or (LOCAL_MODEL if find_spec("wordllama") else KEYWORDS)

    def embedder(self, embedding_model: str) -> Embedder:
        """Return the model for an id, with or without the provider that RAGFlow appends.

        Raises:
            SettingsError: if the settings do not contain the id.
        """
        id_ = embedding_model or self.default
        key = find_model_id(id_, self._settings) or id_
        if key not in self._embedders:
            settings = self._settings.get(key) or self._find_known(id_)
            if settings is None and id_ in _WITHOUT_SETTINGS:
                return _WITHOUT_SETTINGS[id_]()
            if id_ == "hashing-stand-in":
                raise SettingsError(
                    f"The embedding model {id_!r} of earlier checkouts is gone: delete the dataset and add its "
                    "files again, or choose another model for the memory."
                )
            if settings is None:
                raise SettingsError(
                    f'There is no embedding model {id_!r} in the settings: add [embeddings."{id_}"] with base_url, '
                    f"model and api_key.{list_models(self._settings)}"
                )
            self._embedders[key] = EndpointEmbedder(key, settings)
        return self._embedders[key]

    async def aclose(self) -> None:
        """Close the connections."""
        embedders, self._embedders = self._embedders, {}
        for embedder in embedders.values():
            await embedder.aclose()


class EmbedderEmbeddings(Embeddings):
    """One of our embedding models for LangChain's vector stores."""

    def __init__(self, embedder: Embedder) -> None:
        """Initialize."""
        self.embedder = embedder

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector for a question."""
        return [*await self.embedder.embed_question(text)]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors for texts, in order."""
        return [[*vector] for vector in await self.embedder.embed_chunks(texts)]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector for a question. It blocks."""
        return run_blocking(self.aembed_query(text))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors for texts, in order. It blocks."""
        return run_blocking(self.aembed_documents(texts))


class LangChainEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` that asks one of LangChain's models, whatever its id is."""

    vector_model = ""

    def __init__(self, embeddings: Embeddings) -> None:
        """Initialize."""
        self._embeddings = embeddings
        self.name = type(embeddings).__name__

    def embedder(self, embedding_model: str) -> Embedder:
        """Return itself: it is used for all datasets."""
        return self

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector for a question.

        Raises:
            ServiceError: if the model fails.
        """
        try:
            return await self._embeddings.aembed_query(text)
        except Exception as error:  # third-party code may raise anything
            raise ServiceError(f"{self.name} cannot embed the question: {type(error).__name__}: {error}.") from error

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors for chunks, in order.

        Raises:
            ServiceError: if the model fails.
        """
        try:
            return await self._embeddings.aembed_documents([*texts])
        except Exception as error:  # third-party code may raise anything
            raise ServiceError(f"{self.name} cannot embed texts: {type(error).__name__}: {error}.") from error
