"""Whole sessions: exported, imported, pruned and deleted.

May import: the modules directly in `checkpoints`, `services`, `base`.
"""
