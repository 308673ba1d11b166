"""Values as texts: parts that are stored once under their hash, marks that stand for them, checksums.

May import `key_ring`, but nothing else of the session stores.
"""
