"""The small languages of the DSL: references, conditions, forms, joins; and redaction of secrets.

Imports `ragflow_lg.base` only.
"""
