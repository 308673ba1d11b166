"""``ragflow-lg mock-llm``: a model server for tests."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, TextIO

import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.options import Host, Port
from ragflow_lg.server.cli.terminal import print_line


def mock_llm(
    rules: Annotated[Path, typer.Argument(help="Rules file: TOML, or JSON (.json).", metavar="RULES")],
    host: Host = "127.0.0.1",
    port: Port = 0,
    log: Annotated[
        Path | None, typer.Option("--log", help="File to append the request log to. Default: standard error.")
    ] = None,
) -> None:
    """Serve a mock model with an OpenAI-compatible API.

    The rules file determines the replies. The first line of output is the URL. Requests are logged as JSON Lines,
    without API keys. Ctrl-C stops the server. docs/offline.md describes the rules: tool calls, fragments, delays, 429
    and 500, broken streams.

    Examples:
    ragflow-lg mock-llm examples/mock_rules.toml --port 8089

    ragflow-lg run canvas.json "Hello" --model any@Mock   (with [providers.Mock] base_url = "http://127.0.0.1:8089/v1")
    """
    import asyncio

    from ragflow_lg.integrations.mock_model.mock_llm_app import RequestLog, mock_app, serve
    from ragflow_lg.integrations.mock_model.rules import load_rules
    from ragflow_lg.server.http.edge.uvicorn_server import open_socket

    rule_set = load_rules(rules)
    with ExitStack() as stack:
        lines = sys.stderr if log is None else stack.enter_context(_open_log(log))

        def write(line: str) -> None:
            lines.write(line)
            lines.flush()

        app = mock_app(rule_set, RequestLog(write))
        listener = stack.enter_context(open_socket(host, port))
        asyncio.run(serve(app, listener, print_line))


def _open_log(log: Path) -> TextIO:
    try:
        return log.open("a", encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"The log {str(log)!r} cannot be written: {(error.strerror or str(error)).lower()}."
        ) from None
