"""Counterparts of LangChain: datasets as retrievers, canvases as tools and runnables.

>>> from ragflow_lg.langchain import EmbeddedRetriever
>>> EmbeddedRetriever(datasets=["handbook"], top_n=3).file.name
'ragflow-lg-knowledge.db'
"""

from ragflow_lg.langchain.canvas_tools import CanvasRunnable, canvas_tool
from ragflow_lg.langchain.dataset_retrievers import (
    DatasetRetriever,
    EmbeddedRetriever,
    RagflowIndexRetriever,
    RagflowRetriever,
)

__all__ = [
    "CanvasRunnable",
    "DatasetRetriever",
    "EmbeddedRetriever",
    "RagflowIndexRetriever",
    "RagflowRetriever",
    "canvas_tool",
]
