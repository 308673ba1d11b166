"""Runs of agents: started, stored in the database, taken over from dead replicas, and controlled.

May import ``agents``, ``assembly``, ``database``, ``observability`` and ``streaming`` of the server; not ``http``.
"""
