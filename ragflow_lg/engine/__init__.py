"""Execution of one canvas: running nodes and regions, starting and ending a turn, and canvases within canvases.

May import: `component`, `templates`, `services`, `dsl`, `base`.
"""
