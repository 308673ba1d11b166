"""MCP servers over HTTP or as child processes. The MCP SDK is imported by the first session."""

from ragflow_lg.component.integration import Integration, Service

INTEGRATION = Integration(
    __name__,
    sections={"mcp": ".mcp_settings:McpSections"},
    services=(Service("ragflow_lg.services.tool_policies:ToolServers", ".mcp_servers:open_servers", "servers"),),
    probe=".mcp_servers:probe_servers",
)
