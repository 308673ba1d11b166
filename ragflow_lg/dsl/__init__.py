"""The small languages of the DSL: references, conditions, forms, joins and templates. Also the redaction of secrets.

May import: `services`, `base`.
"""
