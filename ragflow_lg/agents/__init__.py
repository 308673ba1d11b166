"""Agents: the tools available to a model, and the strategies for using them.

May import everything below: `engine`, `models`, `wire`, `component`, `templates`, `services`, `dsl` and `base`.
"""
