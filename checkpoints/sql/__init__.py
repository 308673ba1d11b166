"""What SQLite and PostgreSQL have in common: all tables of sessions, and the statements for them.

May import: the modules directly in `checkpoints`, `steps`, `records`, `services`, `base`.
"""
