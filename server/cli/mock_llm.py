"""``ragflow-lg mock-llm``: a server that answers as the rules say."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, TextIO

import typer

from ragflow_lg.base.errors import SettingsError

__all__ = ["mock_llm"]


def mock_llm(
    rules: Annotated[Path, typer.Argument(help="File of rules: TOML, or JSON (.json).", metavar="RULES")],
    host: Annotated[str, typer.Option("--host", help="Address to listen at; others than the default open it.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", "-p", help="Port; 0 takes a free one.", min=0, max=65535)] = 0,
    log: Annotated[
        Path | None, typer.Option("--log", help="File to add the request log to. Default: standard error.")
    ] = None,
) -> None:
    """Answer like an OpenAI-compatible endpoint, as the rules of a file say, without any model.

    The first line of the output is the address. Requests are logged as JSON lines, without keys. Ctrl-C ends it.
    docs/offline.md tells what rules can say: tool calls, fragments, delays, 429 and 500, streams that break off.

    Examples:
    ragflow-lg mock-llm examples/mock_rules.toml --port 8089

    ragflow-lg run canvas.json "Hello" --model any@Mock   (with [providers.Mock] base_url = "http://127.0.0.1:8089/v1")
    """
    import asyncio

    from ragflow_lg.server.devtools.mock_llm.mock_llm_app import mock_app
    from ragflow_lg.server.devtools.mock_llm.mock_llm_server import serve
    from ragflow_lg.server.devtools.mock_llm.request_log import RequestLog
    from ragflow_lg.server.devtools.mock_llm.rules import load_rules
    from ragflow_lg.server.http.edge.listening_socket import open_socket

    loaded = load_rules(rules)
    with ExitStack() as opened:
        lines = sys.stderr if log is None else opened.enter_context(_open(log))

        def write(line: str) -> None:
            lines.write(line)
            lines.flush()

        app = mock_app(loaded, RequestLog(write))
        listener = opened.enter_context(open_socket(host, port))
        asyncio.run(serve(app, listener, _announce))


def _announce(url: str) -> None:
    sys.stdout.write(url + "\n")
    sys.stdout.flush()


def _open(log: Path) -> TextIO:
    try:
        return log.open("a", encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"The log {str(log)!r} cannot be written: {(error.strerror or str(error)).lower()}."
        ) from None
