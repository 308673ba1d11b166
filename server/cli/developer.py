"""``ragflow-lg lsp`` and ``mock-llm``: servers for editors and for tests."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.options import Host, Port, SettingsFile
from ragflow_lg.server.cli.terminal import print_line

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler import CheckedCanvas
    from ragflow_lg.server.devtools.language_server.lsp_server import CanvasServer


def lsp(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Use standard input and output. There is no other way; editors may say so.")
    ] = False,
    settings: SettingsFile = None,
) -> None:
    """Show mistakes in canvases while you type, in your editor.

    The editor starts this command, and speaks the Language Server Protocol (LSP) with it.

    Editors start it: docs/checking.md shows how. It reports what check reports, describes nodes and references,
    completes references, finds and renames nodes, and offers the fixes of check --fix.

    Example: ragflow-lg lsp
    """
    from ragflow_lg.base.extras import require
    from ragflow_lg.server.cli.terminal import print_note

    require("lsp", "ragflow-lg lsp")
    if sys.stdin.isatty() and not stdio:
        print_note("ragflow-lg lsp waits for an editor on standard input; docs/checking.md shows how editors start it.")
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # anything else in the stream of messages would end the connection
    build_canvas_server(settings).start_io(source, sink)


def build_canvas_server(settings: Path | None) -> CanvasServer:
    """Return the language server, which checks texts with the settings in a file, or in the default one."""
    from ragflow_lg.dsl_compiler import CanvasLimits, inspect_canvas
    from ragflow_lg.dsl_compiler.deployment import NoDeployment
    from ragflow_lg.server.assembly.library import catalog, check_text
    from ragflow_lg.server.devtools.language_server.lsp_server import create_server
    from ragflow_lg.server.settings import load_settings

    class Unknown(NoDeployment):
        limits = CanvasLimits()

    def check(text: str, path: Path | None) -> CheckedCanvas:
        return check_text(text, path, lambda: load_settings(settings), CanvasLimits())

    def check_alone(text: str, path: Path | None) -> CheckedCanvas:
        return inspect_canvas(text, catalog(), Unknown())

    return create_server(check, check_alone)


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

    from ragflow_lg.server.devtools.mock_llm.mock_llm_app import RequestLog, mock_app, serve
    from ragflow_lg.server.devtools.mock_llm.rules import load_rules
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
