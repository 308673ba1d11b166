"""The agents as tools of an MCP server, over streamable HTTP."""
