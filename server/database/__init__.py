"""The server's relational database: tables, migrations, and one repository for each kind of row.

May import ``base``, ``adapters`` and ``services``, but nothing else from the server.
"""
