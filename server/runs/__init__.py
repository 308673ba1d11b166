"""Agent runs: starts and controls them, stores them in the database, and takes them over from dead replicas.

From the server, may import ``agents``, ``assembly``, ``database``, ``observability`` and ``streaming``; not ``http``.
"""
