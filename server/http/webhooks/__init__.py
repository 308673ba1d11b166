"""RAGFlow's webhooks: configuration, authentication and payload of a call, and the turn that it starts.

May import `server.http.shared`, `server.agents`, `server.database`, `server.runs` and the packages below them.
"""
