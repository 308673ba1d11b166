"""The command ``ragflow-lg``: one file for each subcommand, and shared code.

May import every other room of the package; only ``ragflow_lg/__main__.py`` imports it.
"""
