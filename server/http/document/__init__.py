"""The OpenAPI document: tables and models that describe the routes which parse their requests themselves.

Loaded when the document is first requested. May import `server.http.native` and `server.database.tables`.
"""
