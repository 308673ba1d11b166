"""Builds everything that the settings describe: services, stores, canvases and the server's state.

May import every package below ``server`` and, from the server, ``settings``, ``database``, ``streaming`` and
``observability``.
"""
