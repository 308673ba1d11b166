"""Implementations of the protocols of `ragflow_lg.services`: models, HTTP, MCP, knowledge bases, recordings, telemetry.

May import `base`, `services`, `component`, `models` and `runs`; other packages import these modules lazily.
"""
