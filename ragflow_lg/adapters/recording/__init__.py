"""Recording of everything that a run requests from services, and replay of a recording in their place.

Imports `services`, `dsl` and `base`.
"""
