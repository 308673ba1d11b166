"""The command ``ragflow-lg``: its subcommands, one file for each subject, and shared code.

May import every other room of the package; only ``ragflow_lg/__main__.py`` imports it.
"""
