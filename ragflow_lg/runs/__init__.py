"""Running sessions: starting, resuming and continuing turns, forks and reruns, callbacks and traces.

`wire` has the events that clients see. May import: `engine`, `component`, `services`, `dsl`, `base`.
"""
