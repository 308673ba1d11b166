"""HTTP APIs that an OpenAPI document describes: their operations are tools of agents, beside those of MCP servers."""

from ragflow_lg.component.integration import Integration, Service

INTEGRATION = Integration(
    __name__,
    sections={"openapi": ".openapi_settings:ApiSections"},
    services=(Service("ragflow_lg.services.tool_policies:ToolServers", ".api_servers:open_apis", "servers"),),
    probe=".api_servers:probe_apis",
)
