"""The SQLite backend: a single file that several processes can use.

May import: the modules directly in `checkpoints`, `services`, `base`.
"""
