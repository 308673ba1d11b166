"""Memories in LangGraph's ``BaseStore``: storing exchanges, extracting what they say, searching and forgetting.

May import `base`, `services`, `models` and `adapters.knowledge`.
"""
