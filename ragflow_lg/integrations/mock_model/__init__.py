"""An OpenAI-compatible server that answers according to rules, for testing canvases and clients without a model."""

from ragflow_lg.component.integration import Command, Integration

INTEGRATION = Integration(
    __name__,
    commands={
        "mock-llm": Command("Build", ".mock_command:mock_llm", "Serve a mock model with an OpenAI-compatible API.")
    },
)
