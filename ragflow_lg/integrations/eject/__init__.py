"""Writes a canvas as a Python package: one module a node with its prompts and params, and the edges.

The package builds the canvas again and compiles it, so that it does the same. No text of a canvas becomes code: it is
written as a literal (`python_literals`) or turned into a name (`python_names`).
"""

from ragflow_lg.component.integration import Command, Integration

INTEGRATION = Integration(
    __name__, commands={"canvas eject": Command("Build", ".eject_command:eject", "Write a canvas as a Python package.")}
)
