"""``ragflow-lg mock-llm``: a model server for tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ragflow_lg.server.cli.options import Host, Port
from ragflow_lg.server.cli.terminal import print_line


def mock_llm(
    rules: Annotated[Path, typer.Argument(help="Rules file: TOML, or JSON (.json).", metavar="RULES")],
    host: Host = "127.0.0.1",
    port: Port = 0,
) -> None:
    """Serve a mock model with an OpenAI-compatible API.

    The rules file determines the replies. The first line of output is the URL. Requests are logged on standard error as
    JSON Lines, without API keys. Ctrl-C stops the server. docs/offline.md describes the rules: tool calls, fragments,
    delays, 429 and 500, broken streams.

    Examples:
    ragflow-lg mock-llm examples/mock_rules.toml --port 8089

    ragflow-lg run canvas.json "Hello" --model any@Mock   (with [providers.Mock] base_url = "http://127.0.0.1:8089/v1")
    """
    import asyncio

    from ragflow_lg.integrations.mock_model.mock_llm_app import RequestLog, mock_app, serve
    from ragflow_lg.integrations.mock_model.rules import load_rules
    from ragflow_lg.server.http.edge.uvicorn_server import open_socket

    rule_set = load_rules(rules)

    def write(line: str) -> None:
        sys.stderr.write(line)
        sys.stderr.flush()

    with open_socket(host, port) as listener:
        asyncio.run(serve(mock_app(rule_set, RequestLog(write)), listener, print_line))
