"""Stored agents: their versions, templates and files.

From the server, may import ``assembly``, ``database``, ``observability`` and ``settings``; not ``runs`` or ``http``.
"""
