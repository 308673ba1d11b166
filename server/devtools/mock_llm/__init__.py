"""An OpenAI-compatible server that answers according to rules, for testing canvases and clients without a model.

Of the other packages, may import only `server.http.edge` for its socket, errors and redaction.
"""
