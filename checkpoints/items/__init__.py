"""LangGraph's store: items of any program by namespace and key, searched by their vectors. Memories are such items.

May import: `plain_serializer`, `services`, `base`.
"""
