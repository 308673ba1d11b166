"""Chat model calls: parameters, prompts, citations, classification and structured answers.

Imports `ragflow_lg.component` and the rooms below it.
"""
