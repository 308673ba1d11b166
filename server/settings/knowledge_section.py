"""Sections for knowledge: where to search, and RAGFlow datasets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from ragflow_lg.server.settings.section import KeySection, Section


class KnowledgeSection(KeySection):
    """``[knowledge]``: where to find the datasets that Retrieval searches."""

    url: Annotated[str, Field(repr=False)] = "sqlite:///ragflow-lg-knowledge.db"
    """``sqlite:///PATH`` is the embedded knowledge base, ``elasticsearch+https://HOST:9200`` the index of a RAGFlow,
    ``ragflow+https://HOST`` its API. ``api_key`` is for the last two."""
    timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """Timeout for one search on a server."""
    tokenizer: Literal["es-portable", "ragflow-ranking"] = "es-portable"
    """How questions to Elasticsearch are tokenized: approximately, or exactly as by RAGFlow, which must be installed.
    """
    dictionaries: Path | None = None
    """Folder with RAGFlow's ``ner.json`` and ``synonym.json``, for Elasticsearch."""
    ragflow_url: str = ""
    """``ragflow+https://HOST``: where to look up datasets missing from ``[datasets]``, for Elasticsearch."""
    ragflow_api_key: SecretStr | None = None
    ragflow_api_key_env: str = ""

    def ragflow_key(self) -> str:
        """Return the key for ``ragflow_url``, or ``""`` if there is none."""
        if self.ragflow_api_key is not None:
            return self.ragflow_api_key.get_secret_value()
        return os.environ.get(self.ragflow_api_key_env, "") if self.ragflow_api_key_env else ""

    def password(self) -> str:
        """Return the password in ``url``, or ``""`` if there is none."""
        user = self.url.rpartition("@")[0].rpartition("//")[2]
        return user.partition(":")[2]

    embedding: str = ""
    """The ID in ``[embeddings."ID"]`` to use for new datasets. Default: the only one, or the hashing stand-in."""
    fusion: Literal["weighted", "rrf"] = "weighted"
    """How the embedded knowledge base ranks chunks: by RAGFlow's weighted sum or by reciprocal ranks."""


class DatasetSection(Section):
    """``[datasets."ID"]``: a dataset that RAGFlow stores in Elasticsearch."""

    name: str = ""
    embedding_model: str
    """RAGFlow's ``embd_id``; its endpoint is under ``[embeddings]``."""
    tenant: str
    """Its owner's id: the index is ``ragflow_TENANT``."""
