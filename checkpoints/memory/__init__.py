"""The backend in memory: its data ends with the process.

May import: the modules directly in `checkpoints`, `services`, `base`.
"""
