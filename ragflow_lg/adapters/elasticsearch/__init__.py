"""Search in the Elasticsearch index of a RAGFlow, with RAGFlow's queries and scores.

May import `base`, `services` and `adapters.knowledge`; Elasticsearch's client is imported by the first search.
"""
