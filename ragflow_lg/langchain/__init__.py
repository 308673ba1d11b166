"""Datasets as LangChain's retrievers.

>>> from ragflow_lg.langchain import EmbeddedRetriever
>>> EmbeddedRetriever(datasets=["handbook"], top_n=3).file.name
'ragflow-lg-knowledge.db'
"""

from ragflow_lg.langchain.dataset_retrievers import (
    DatasetRetriever,
    EmbeddedRetriever,
    RagflowIndexRetriever,
    RagflowRetriever,
)

__all__ = ["DatasetRetriever", "EmbeddedRetriever", "RagflowIndexRetriever", "RagflowRetriever"]
