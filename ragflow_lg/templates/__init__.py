"""Jinja templates in a sandbox with limits of size and time.

Imports `ragflow_lg.base` and `ragflow_lg.dsl`.
"""
