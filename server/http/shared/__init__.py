"""What the HTTP surfaces share: authentication, request parsing, RAGFlow's envelopes, event streams.

May import `server.database`, `server.runs`, `server.streaming`, `server.observability` and what lies below them.
"""
