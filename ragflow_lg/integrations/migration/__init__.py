"""Moving in from a running RAGFlow: a folder with its agents, sessions and datasets, and their import.

`agent_files` and `settings_text` compute only; `folder` reads and writes the folder, `puller` fills it. `folder_import`
moves it into this server, and `thread_import` the states of its sessions. `compare` asks both engines the same.
"""

from ragflow_lg.component.integration import Command, Integration

INTEGRATION = Integration(
    __name__,
    commands={
        "pull": Command("Serve", ".pull:pull", "Fetch agents, sessions and datasets from a running RAGFlow."),
        "compare": Command("Serve", ".compare:compare", "Ask a running RAGFlow and this engine the same questions."),
    },
)
