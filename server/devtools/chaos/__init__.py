"""Killing the runs of a canvas at every point, and checking that each of them recovers.

May import the compiler, the runner, the stores and the demo model.
"""
