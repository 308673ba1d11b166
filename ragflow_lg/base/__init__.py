"""Errors, ids, JSON values, diagnostics, limits, tokens and thinking sections.

Imports nothing else from the project.
"""
