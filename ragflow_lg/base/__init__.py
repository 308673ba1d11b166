"""Errors, ids, JSON values, diagnostics, tokens, thinking sections, worker tasks and tables in files.

Imports nothing else from the project.
"""
