"""Agents: the tools of a visit, and the strategies by which a model uses them.

May import everything below: `engine`, `models`, `wire`, `component`, `templates`, `services`, `dsl` and `base`.
"""
