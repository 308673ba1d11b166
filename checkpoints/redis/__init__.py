"""The Redis backend. It uses RAGFlow's key names wherever RAGFlow has the same concept.

May import: the modules directly in `checkpoints`, `services`, `base`.
"""
