"""The command ``ragflow-lg``: one file for each subcommand, and what they share.

May import every other room of the package; only ``server/__main__.py`` imports it.
"""
