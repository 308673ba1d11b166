"""Runs that outlive their connections: event journals, streams that clients can leave and resume, and the queue.

May import ``checkpoints``, ``base``, ``component``, ``services`` and ``wire``, but nothing else from the server.
"""
