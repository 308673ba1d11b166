"""A compiled canvas as a LangGraph graph: for applications, Studio and the Agent Server.

Imports the engine, `runs`, `wire`, and of the compiler only helpers: no pass and nothing of `lower`.
"""
