"""Values and Protocols for the services of a run: models, HTTP, knowledge, sessions and tool policies.

Imports `ragflow_lg.base` only; the implementations are in `ragflow_lg.adapters` and `ragflow_lg.checkpoints`.
"""
