"""A folder for each integration: what the core can do without. `ragflow_lg.component.integration` says how it is found.

May import everything; nothing imports it.
"""
