"""The small languages of the DSL: references, conditions, forms and joins. Also the redaction of secrets.

Imports `ragflow_lg.base` only.
"""
