"""Calls of chat models: parameters, prompts, citations, classification, structured answers.

Imports `ragflow_lg.component` and the rooms below it.
"""
