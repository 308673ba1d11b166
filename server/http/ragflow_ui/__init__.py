"""RAGFlow's own front end: its files, and the routes that only it needs. Mounted if `[server] ragflow_ui` is set.

May import `server.http.shared` and everything below `server.http`.
"""
