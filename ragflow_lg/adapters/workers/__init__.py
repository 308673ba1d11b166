"""Worker processes for work on hostile input: killed when it takes too long, or when its caller is cancelled.

May import: `services`, `base`.
"""
