"""Sandboxes for CodeExec: programs run without network, without files of the host, and with limits.

May import: `services`, `base`, and of the other adapters `workers` and `http`.
"""
