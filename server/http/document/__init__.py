"""The OpenAPI document: FastAPI's, completed with what the routes declare.

Loaded when the document is first requested. May import all other packages of `server.http`.
"""
