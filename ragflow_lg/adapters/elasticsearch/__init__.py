"""Search in RAGFlow's Elasticsearch index, with RAGFlow's queries and scores.

May import `base`, `services` and `adapters.knowledge`; Elasticsearch's client is imported by the first search.
"""
