"""The services of a run as values and Protocols: models, HTTP, knowledge, sessions, tool policies.

Imports `ragflow_lg.base` only; the implementations are in `ragflow_lg.adapters` and `ragflow_lg.checkpoints`.
"""
