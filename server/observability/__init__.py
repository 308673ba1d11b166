"""Logs, audit log, metrics and spans, and limits on requests and runs.

May import the server's ``settings`` and the packages below it.
"""
