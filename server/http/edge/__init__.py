"""Infrastructure around the APIs: sockets and uvicorn, middleware, health, readiness and metrics.

May import `server.http.shared`, `server.observability` and `server.settings`.
"""
