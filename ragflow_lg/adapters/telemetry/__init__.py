"""OpenTelemetry spans of runs.

May import `base`, `services`, `component`, `runs` and other adapters; OpenTelemetry is imported on first use.
"""
