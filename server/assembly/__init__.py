"""Building what the settings describe: services, stores, canvases and the server's state.

May import every package below ``server``, and of the server ``settings``, ``database``, ``streaming`` and
``observability``.
"""
