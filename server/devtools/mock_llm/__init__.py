"""An OpenAI-compatible server that answers by rules, for canvases, clients and tests without a model.

May import `server.http.edge` for its socket, and otherwise only errors and redaction.
"""
