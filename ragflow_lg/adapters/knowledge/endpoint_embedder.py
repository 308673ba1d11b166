"""Embedding models: vectors from an endpoint, and the choice of a dataset's model."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ragflow_lg.adapters.knowledge.model_endpoint import EndpointSettings, ModelEndpoint, find_model_id, list_models
from ragflow_lg.adapters.knowledge.words import split_words
from ragflow_lg.adapters.model_families.families import FAMILIES, open_family
from ragflow_lg.adapters.model_families.model_family import FamilyEndpoint, ModelFamily
from ragflow_lg.base.errors import ForeignJsonError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.base.foreign_json import SMALL_BYTES
from ragflow_lg.base.json_scanner import JsonLimits, parse_foreign_json
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.knowledge import Embedder
from ragflow_lg.services.workers import NoWorkers, Workers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HASHING_MODEL = "hashing-stand-in"
"""The embedding model id for datasets that were created without a model."""

DIMS = 384

MAX_QUESTION_CHARS = 6_000
"""Maximum length of an embedded question: models accept about 8,000 tokens, and a character may take more than one."""

MAX_DIMS = 8192
"""Maximum length of a vector from an endpoint."""
NUMBER_BYTES = 24
"""The longest way in which servers write one of its numbers."""
LENGTH_BYTES = 4

_LONGEST_PAUSE_S = 60.0
_TOO_LARGE = 1e15
"""Larger numbers could overflow in float32 products."""


class EmbeddingSettings(EndpointSettings, frozen=True):
    """The settings for one embedding model."""

    dims: int = 0
    """Required length of the vectors; 0 accepts any."""
    family: str = ""
    """The name in `ragflow_lg.adapters.model_families`, unless the endpoint is compatible with OpenAI's API."""


@worker_task("Reading the vectors of texts", small_size=SMALL_BYTES)
def read_vectors(text: str, count: int) -> bytes:
    """Return the vectors of ``count`` texts in an answer, each as its length and its numbers.

    Raises:
        ForeignJsonError: if the answer exceeds a limit, or contains no vectors.
    """
    most = (count + 1) * MAX_DIMS
    answer: Any = parse_foreign_json(text, JsonLimits(most * NUMBER_BYTES, most))
    try:
        rows = sorted(answer["data"], key=lambda row: row.get("index", 0))
        vectors = [array("d", map(float, row["embedding"])) for row in rows]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise ForeignJsonError("has no embeddings") from None
    return b"".join(len(vector).to_bytes(LENGTH_BYTES, "big") + vector.tobytes() for vector in vectors)


def _unpack(packed: bytes) -> list[list[float]]:
    """Return the vectors that `read_vectors` found."""
    vectors: list[list[float]] = []
    at = 0
    while at < len(packed):
        length = int.from_bytes(packed[at : at + LENGTH_BYTES], "big")
        at += LENGTH_BYTES
        vector = array("d", packed[at : at + length * 8])
        at += length * 8
        vectors.append(vector.tolist())
    return vectors


class EndpointEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` for ``[embeddings."ID"]``."""

    is_stand_in = False

    def __init__(self, id_: str, settings: EmbeddingSettings, http: HttpClient, workers: Workers | None = None) -> None:
        self.name = id_
        self._workers = workers or NoWorkers()
        self.vector_model = settings.model or id_
        self._settings = settings
        name = f'embedding model [embeddings."{id_}"]'
        self._endpoint = ModelEndpoint(name, settings, http, longest_pause_s=_LONGEST_PAUSE_S)
        self._family = _FamilyEmbeddings(name, settings, self._endpoint) if settings.family else None

    async def aclose(self) -> None:
        """Close the connections that it does not share."""
        if self._family is not None:
            await self._family.aclose()

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector of a question."""
        return (await self._embed([text[:MAX_QUESTION_CHARS]], is_question=True))[0]

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of chunks, in order."""
        size = self._settings.batch
        vectors: list[Sequence[float]] = []
        for start in range(0, len(texts), size):
            vectors += await self._embed(texts[start : start + size])
        return vectors

    async def _embed(self, texts: Sequence[str], *, is_question: bool = False) -> list[list[float]]:
        # Most endpoints reject an empty text; RAGFlow embeds the word None instead.
        texts = [text if text.strip() else "None" for text in texts]
        if self._family is not None:
            self._endpoint.require_key(is_optional=not FAMILIES[self._settings.family].needs_key)
            return self._check(await self._family.embed(texts, is_question=is_question), len(texts))
        body = {"model": self._settings.model, "input": texts}
        return await self._endpoint.fetch("/embeddings", body, lambda answer: self._parse(answer, len(texts)))

    async def _parse(self, text: str, count: int) -> list[list[float]]:
        try:
            packed = await self._workers.run(read_vectors, text, count)
        except ForeignJsonError as error:
            what = f"answered without embeddings: {self._endpoint.excerpt(text)} (its JSON {error})"
            raise self._endpoint.failure(what) from None
        return self._check(_unpack(packed), count)

    def _check(self, vectors: list[list[float]], count: int) -> list[list[float]]:
        if len(vectors) != count:
            raise self._endpoint.failure(f"returned {len(vectors)} vectors for {count} texts")
        dims = self._settings.dims or len(vectors[0])
        if wrong := next((vector for vector in vectors if len(vector) != dims), None):
            raise self._endpoint.failure(f"returned a vector of {len(wrong)} numbers instead of {dims}")
        if not dims or not all(abs(number) < _TOO_LARGE for vector in vectors for number in vector):
            raise self._endpoint.failure("returned a vector that is empty or contains invalid numbers")
        return vectors


class _FamilyEmbeddings:
    """The client of one embedding model of a family: LangChain's, with the retries and checks of other endpoints."""

    def __init__(self, name: str, settings: EmbeddingSettings, endpoint: ModelEndpoint) -> None:
        """Initialize it. ``name`` is the model's kind and setting.

        Raises:
            SettingsError: if the family has no embedding models, or its packages are not installed.
        """
        self._settings = settings
        self._endpoint = endpoint
        family = FAMILIES[settings.family]
        if not family.has_embeddings:
            raise SettingsError(f"The {name} cannot be used: {family.title} has no embedding models.")
        self._family: ModelFamily = open_family(
            settings.family, FamilyEndpoint(settings.base_url, settings.api_key, settings.timeout_s)
        )
        self._embeddings: Any = None
        self._lock = asyncio.Lock()

    async def embed(self, texts: Sequence[str], *, is_question: bool) -> list[list[float]]:
        """Return the vectors of texts, in order.

        Raises:
            ServiceError: if the endpoint fails.
        """

        async def call() -> list[list[float]]:
            async with self._lock:
                if self._embeddings is None:
                    self._embeddings = await asyncio.to_thread(self._family.make_embeddings, self._settings.model)
            async with asyncio.timeout(self._settings.timeout_s):
                if is_question:
                    return [await self._family.embed_question(self._embeddings, texts[0])]
                return await self._family.embed_texts(self._embeddings, texts)

        async def attempt() -> list[list[float]]:
            try:
                return await call()
            except TimeoutError:
                what = f"did not answer within {self._settings.timeout_s:g} s"
                raise self._endpoint.failure(what, is_retryable=True) from None
            except Exception as error:  # noqa: BLE001 - any client may raise anything
                from ragflow_lg.adapters.model_families.client_failures import describe_failure

                failure = describe_failure(error, self._settings.base_url)
                raise self._endpoint.failure(
                    self._endpoint.excerpt(failure.text),
                    is_retryable=failure.is_retryable,
                    retry_after_s=failure.retry_after_s,
                ) from None

        return await self._endpoint.retry(attempt)

    async def aclose(self) -> None:
        """Close the connections."""
        self._embeddings = None
        await self._family.aclose()


class HashingEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` without a model; its vectors are the same on every machine."""

    name = f"{HASHING_MODEL} (no model: it compares words, not meanings)"
    vector_model = HASHING_MODEL
    is_stand_in = True

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector of a question."""
        return self.vectors([text])[0].tolist()

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of chunks, in order."""
        return self.vectors(texts).tolist()

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text: each distinct word adds 1 or -1 at an index given by its CRC-32."""
        require("knowledge", "A dataset without an embedding model")
        import numpy as np

        rows = np.zeros((len(texts), DIMS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            codes = np.fromiter((crc32(word.encode()) for word in set(split_words(text))), dtype=np.int64)
            if len(codes):
                signs = np.where(codes & 0x80000000, 1.0, -1.0)
                row[:] = np.bincount((codes & 0x7FFFFFFF) % DIMS, weights=signs, minlength=DIMS)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


class ConfiguredEmbedders:
    """The `Embedders` from the settings. ``default`` is the id for new datasets; ``""`` means the hashing model."""

    def __init__(
        self,
        settings: Mapping[str, EmbeddingSettings],
        http: HttpClient,
        workers: Workers | None = None,
        *,
        default: str = "",
        find_known: Callable[[str], EmbeddingSettings | None] = lambda _: None,
    ) -> None:
        """Initialize. ``find_known`` returns the settings for models that need no section; ``workers`` read answers."""
        self._workers = workers
        self._settings = settings
        self._find_known = find_known
        self._http = http
        self._embedders: dict[str, EndpointEmbedder] = {}
        self.default = default or HASHING_MODEL

    def embedder(self, embedding_model: str) -> Embedder:
        """Return the model for an id, with or without the provider that RAGFlow appends.

        Raises:
            SettingsError: if the settings do not contain the id.
        """
        id_ = embedding_model or self.default
        if id_ == HASHING_MODEL:
            return HashingEmbedder()
        if key := find_model_id(id_, self._settings):
            return self._open(key, self._settings[key])
        if known := self._find_known(id_):
            return self._open(id_, known)
        raise SettingsError(
            f'There is no embedding model {id_!r} in the settings: add [embeddings."{id_}"] with base_url, model '
            f"and api_key_env.{list_models(self._settings)}"
        )

    def _open(self, id_: str, settings: EmbeddingSettings) -> EndpointEmbedder:
        if id_ not in self._embedders:
            self._embedders[id_] = EndpointEmbedder(id_, settings, self._http, self._workers)
        return self._embedders[id_]

    async def aclose(self) -> None:
        """Close the connections that the models do not share."""
        embedders, self._embedders = self._embedders, {}
        for embedder in embedders.values():
            await embedder.aclose()
