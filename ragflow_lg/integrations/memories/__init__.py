"""Memories in LangGraph's ``BaseStore``: storing exchanges, extracting what they say, searching and forgetting."""

from ragflow_lg.component.integration import Command, Integration, NeedKind, Service

_ABOUT = "Show, search, export and delete what canvases remember of users."

INTEGRATION = Integration(
    __name__,
    sections={"memories": ".memory_settings:MemorySections"},
    services=(Service("ragflow_lg.services.memories:Memories", ".open_memories:open_memories", "memories"),),
    needs={"memory": NeedKind("memory", "memory-unknown", ".memory_settings:find_problem", "[memories.{key}]\n")},
    commands={"memory": Command("Models and data", ".memory_command:memory", _ABOUT)},
    prompts={"memory_extraction": ".memory_prompt:PROMPT"},
    routes=(".memory_routes:router", ".ragflow_memory_routes:router"),
)
