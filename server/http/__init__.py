"""The HTTP server: RAGFlow's, OpenAI's and the native API, webhooks, and what every request passes.

May import everything in `server` except `cli`, `studio` and `devtools`.
"""
