"""Jinja templates in a sandbox with size and time limits.

Imports `ragflow_lg.base` and `ragflow_lg.dsl`.
"""
