"""Built-in tools: components that a model may call. One file each; see `ragflow_lg.component.tool`.

May import `agents`, `engine`, `models` and everything below, but no components or other tools.
"""
