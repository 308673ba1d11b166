"""Code shared by the HTTP APIs: authentication, request parsing, RAGFlow's envelopes, event streams.

May import `server.database`, `server.runs`, `server.streaming`, `server.observability` and the packages below them.
"""
