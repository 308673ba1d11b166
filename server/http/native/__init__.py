"""The native API: routes, request and response models, and problems with HTTP statuses.

May import `server.http.shared` and everything below `server.http`.
"""
