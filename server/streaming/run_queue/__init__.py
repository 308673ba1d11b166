"""The queue of runs that workers play: who is next, and the messages of the broker that hand runs to workers.

May import ``base``, ``checkpoints`` and ``wire``, but nothing else from the server.
"""
