"""Logs, audit log, metrics and spans, and the limits of requests and runs.

May import ``settings`` of the server and the packages below it.
"""
