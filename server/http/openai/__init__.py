"""The OpenAI-compatible API: agents as models.

May import `server.http.shared` and everything below `server.http`.
"""
