"""The SQLite backend: one file, usable by several processes.

May import: the modules directly in `checkpoints`, `services`, `base`.
"""
