"""What a store knows of a session beside its steps: who plays it, and its runs.

May import `failures`.
"""
