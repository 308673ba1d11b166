"""RAGFlow's HTTP API: agents, sessions, versions, files and completions, with RAGFlow's paths and envelopes.

May import `server.http.shared`, `server.http.openai` and everything below `server.http`.
"""
