"""Databases for ExeSQL: connections, the check that statements only read, and results as JSON.

May import `base`, `services` and `adapters.http`; SQLAlchemy, sqlglot and drivers are imported by the first query.
"""
