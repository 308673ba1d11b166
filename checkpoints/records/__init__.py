"""What a store knows of a session beside its steps: who plays it, its runs, and requests to cancel it.

May import `failures` and `key_ring`.
"""
