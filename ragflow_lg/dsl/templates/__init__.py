"""Jinja templates in a sandbox with size and time limits.

May import: the other modules of `dsl`, `services`, `base`.
"""
