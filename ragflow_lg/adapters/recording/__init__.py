"""Recording of everything that a run requests from services, and replay of a recording instead of those services.

Imports `services`, `dsl` and `base`.
"""
