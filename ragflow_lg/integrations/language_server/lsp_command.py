"""``ragflow-lg lsp``: the language server for editors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.options import SettingsFile

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler import CheckedCanvas
    from ragflow_lg.integrations.language_server.lsp_server import CanvasServer


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
    from ragflow_lg.base.diagnostics import Diagnostic
    from ragflow_lg.base.errors import SettingsError
    from ragflow_lg.dsl_compiler import CanvasLimits, inspect_canvas
    from ragflow_lg.dsl_compiler.deployment import NoDeployment
    from ragflow_lg.integrations.language_server.lsp_server import create_server
    from ragflow_lg.server.assembly.library import catalog, check_text
    from ragflow_lg.server.settings import load_settings

    class Unknown(NoDeployment):
        limits = CanvasLimits()

    def check(text: str, path: Path | None) -> CheckedCanvas:
        try:
            return check_text(text, path, lambda: load_settings(settings), CanvasLimits())
        except SettingsError as error:
            hint = "The canvas is checked without them. Save it again when that has changed."
            problem = Diagnostic("settings", "warning", "", str(error), hint)
            checked = inspect_canvas(text, catalog(), Unknown())
            return checked._replace(diagnostics=(problem, *checked.diagnostics))

    return create_server(check)
