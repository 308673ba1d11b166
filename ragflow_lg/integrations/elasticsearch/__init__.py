"""Search in Elasticsearch: RAGFlow's index with RAGFlow's queries and scores, and indices of others."""

from ragflow_lg.component.integration import Integration

INTEGRATION = Integration(__name__, stores={"elasticsearch": ".datasets"})
