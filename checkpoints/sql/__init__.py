"""What SQLite and PostgreSQL have in common: records, traces and requests to cancel, in tables.

May import: the modules directly in `checkpoints`, `memory`, `records`, `services`, `base`.
"""
