"""Running sessions: starting, resuming and continuing turns, forks and reruns, callbacks and traces.

May import: `engine`, `wire`, `component`, `services`, `dsl`, `base`.
"""
