"""Execution of one canvas: visits of nodes, regions, the start and end of a turn, canvases within canvases.

May import: `component`, `templates`, `services`, `dsl`, `base`.
"""
