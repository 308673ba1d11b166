"""Canvases in LangGraph Studio: the files, graph factories and server process of ``ragflow-lg studio``."""

from ragflow_lg.component.integration import Command, Integration

INTEGRATION = Integration(
    __name__, commands={"studio": Command("Build", ".studio_command:studio", "Open canvases in LangGraph Studio.")}
)
