"""The Redis backend, with RAGFlow's key names where RAGFlow has the same concept.

May import: the modules directly in `checkpoints`, `services`, `base`.
"""
