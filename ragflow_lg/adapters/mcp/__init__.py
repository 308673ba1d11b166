"""MCP servers over HTTP or as child processes.

May import `base`, `services` and `adapters.http`; the MCP SDK is imported by the first session.
"""
