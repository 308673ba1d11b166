"""Agent2Agent: agents for other programs, and agents elsewhere as tools. The first call imports the SDK."""

from ragflow_lg.component.integration import Integration, NeedKind, Service

_SECTION = """\
[a2a.{key}]
url = "https://…"
api_key = {{ env = "{variable}_API_KEY" }}
"""

INTEGRATION = Integration(
    __name__,
    components={"A2A": ".a2a"},
    sections={"a2a": ".a2a_settings:A2aSections"},
    services=(Service(".remote_answers:RemoteAgents", ".remote_client:open_agents", recorded_as="a2a"),),
    needs={"a2a_agent": NeedKind("A2A agent", "account-missing", ".a2a_settings:find_problem", _SECTION)},
    probe=".remote_client:probe_agents",
    routes=(".a2a_endpoint:router",),
)
