"""The interface for component and tool authors: specs, decorators, run context, plan, state and engine events.

Imports `ragflow_lg.base`, `ragflow_lg.services`, `ragflow_lg.dsl` and `ragflow_lg.dsl.templates`.
"""
