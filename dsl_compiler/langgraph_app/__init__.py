"""A compiled canvas as a LangGraph graph for applications, Studio and the Agent Server.

Imports the engine, `runs`, and only helpers from the compiler: no passes and nothing from `lower`.
"""
