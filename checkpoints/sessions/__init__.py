"""Sessions as a whole: files with exported ones, and deleting old turns.

May import: the modules directly in `checkpoints`, `steps`, `records`, `services`, `base`.
"""
