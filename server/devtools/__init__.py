"""Tools for developers of canvases and clients: a mock model server, and crash tests for runs.

May import everything except the command line and Studio. Only the command line and tests import it.
"""
