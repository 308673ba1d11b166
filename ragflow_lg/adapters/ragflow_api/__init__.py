"""RAGFlow's HTTP API as a client sees it: agents, versions, sessions, datasets and MCP servers of a running server.

Every answer is read as hostile input: sizes, counts and types are limited. May import `base` and `services`.
"""
