"""Agents as stored things: their versions, templates and files.

May import ``assembly``, ``database``, ``observability`` and ``settings`` of the server; not ``runs`` or ``http``.
"""
