"""The PostgreSQL backend: LangGraph's saver, and tables for everything else, in a schema for each deployment.

May import: the modules directly in `checkpoints`, `memory`, `services`, `base`.
"""
