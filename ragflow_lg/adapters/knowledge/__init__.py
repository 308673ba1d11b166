"""Knowledge bases: the embedded one in SQLite, RAGFlow's API, embedding models and rerank models.

May import `base` and `services`.
"""
