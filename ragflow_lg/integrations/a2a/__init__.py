"""Agent2Agent: agents for other programs, and agents elsewhere as tools. The first call imports the SDK."""

from ragflow_lg.component.integration import Integration

INTEGRATION = Integration(__name__, routes=(".a2a_endpoint:router",))
