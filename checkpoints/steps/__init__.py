"""The checkpointer of all backends: what LangGraph stores of a thread, as texts with their blobs.

May import `failures` and `key_ring`.
"""
