"""The steps of a thread between LangGraph and the saver of a backend: buffered, checked, and written with their parts.

May import `values`, `failures` and `key_ring`.
"""
