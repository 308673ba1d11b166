"""The HTTP server: RAGFlow's API, the OpenAI-compatible API, the native API, webhooks, and middleware for all requests.

May import everything in `server` except `cli`.
"""
