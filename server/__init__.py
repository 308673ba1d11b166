"""Everything that reaches the engine from outside: the command, the HTTP server, Studio.

May import: every other room. This file imports nothing, so that ``check`` and ``--help`` start fast.
"""
