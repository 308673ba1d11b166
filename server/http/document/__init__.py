"""The OpenAPI document: tables and models that describe routes that parse their own requests.

Loaded when the document is first requested. May import `server.http.native` and `server.database.tables`.
"""
