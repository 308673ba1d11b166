"""The HTTP server: RAGFlow's API, the OpenAI-compatible API, the native API, webhooks, and middleware for all requests.

May import everything in `server` except `cli`.

A function that refuses a request raises `ragflow_lg.base.errors.RequestError`, which the application answers in the
format of the path. Docstrings name only other errors.
"""
