"""The sandbox of this machine as a service, with the contract of RAGFlow's own one.

May import `server.http.edge`, `server.assembly` and the packages below them.
"""
