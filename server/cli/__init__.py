"""The command ``ragflow-lg``: one file for each subcommand, and shared code.

May import every other room of the package; only ``server/__main__.py`` imports it.
"""
