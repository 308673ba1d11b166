"""Tools for developers of canvases and clients: a mock model server, and runs that are killed.

May import everything but the command line and Studio. Only the command line and tests import it.
"""
