"""Writes a canvas as a Python package for LangGraph: plan → model of the package → texts of its files.

No text of a canvas becomes code: it is written as a literal (`python_literals`) or turned into a name (`python_names`).
"""

from ragflow_lg.dsl_compiler.eject.package import EjectedPackage, eject_plan

__all__ = ["EjectedPackage", "eject_plan"]
