"""``ragflow-lg check``: report every problem in a canvas without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ragflow_lg.server.cli.diagnostics_output import check_files
from ragflow_lg.server.cli.options import AllowPrivate, KeyVariable, ServerAddress, SettingsFile


def check(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Canvas files, or folders of canvas files.", metavar="FILE|DIR…")
    ] = None,
    output: Annotated[
        Literal["text", "json", "sarif", "html"],
        typer.Option("--output", "-o", help="text for reading; json or sarif for other programs; html with --for."),
    ] = "text",
    tenant: Annotated[
        str,
        typer.Option("--tenant", help="Check with what this tenant of a server may use, and the limits on canvases."),
    ] = "",
    ready: Annotated[
        bool, typer.Option("--ready", help="Also fail if the settings lack something that a canvas needs.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="First remove what has no effect from the files, and leave the rest as it is.")
    ] = False,
    for_: Annotated[
        Literal["ragflow-1.0"] | None,
        typer.Option("--for", help="Report instead what changes when RAGFlow is upgraded to this version."),
    ] = None,
    every_rule: Annotated[
        bool, typer.Option("--all", help="With --for: also what depends on the course of a run.")
    ] = False,
    from_: ServerAddress = "",
    key_env: KeyVariable = "",
    allow_private: AllowPrivate = False,
    settings: SettingsFile = None,
) -> None:
    """Report all problems in canvases, with their line and column.

    Warnings name the models, datasets and keys that the settings lack. With --ready they are errors.

    Exit code 0: all canvases can run. 1: at least one has errors. 2: a file cannot be read. With --for, 0: no answer
    changes. 1: answers differ. 2: a canvas breaks. 3: a file cannot be read.

    Examples:
    ragflow-lg check canvases

    ragflow-lg check my_canvas.json --output sarif > findings.sarif

    ragflow-lg check my_canvas.json --ready

    ragflow-lg check my_canvas.json --fix

    ragflow-lg check canvases --for ragflow-1.0 --output html > report.html

    ragflow-lg check --for ragflow-1.0 --from https://ragflow.example.com --key-env RAGFLOW_KEY
    """
    paths = files or []
    if for_ is not None:
        source = (from_, key_env, settings, allow_private)
        raise typer.Exit(
            _examine(paths, source, output, every_rule=every_rule, is_fixing=fix, is_other=bool(tenant or ready))
        )
    if every_rule or from_ or key_env or output == "html" or not paths:
        raise typer.BadParameter("Name a canvas file or a folder; --all, --from, --key-env and html need --for.")
    raise typer.Exit(check_files(paths, output, settings, tenant, is_ready=ready, is_fixing=fix))


def _examine(
    paths: list[Path],
    source: tuple[str, str, Path | None, bool],
    output: str,
    *,
    every_rule: bool,
    is_fixing: bool,
    is_other: bool,
) -> int:
    """Report what RAGFlow 1.0 does otherwise with canvases in files and on a server. Return the exit code."""
    from ragflow_lg.server.cli.ragflow_1_report import report_files, report_server, write_report

    url, key_env, settings, is_private = source
    if is_other:
        raise typer.BadParameter("--tenant and --ready have no meaning with --for.")
    if is_fixing and url:
        raise typer.BadParameter("--fix changes files: `ragflow-lg pull` first, then --for ragflow-1.0 --fix there.")
    if not paths and not url:
        raise typer.BadParameter("Name a canvas file, a folder, or a server with --from URL --key-env NAME.")
    reports, unread = report_files(paths, output, every_rule=every_rule, is_fixing=is_fixing)
    if url:
        found, failed = report_server(url, key_env, settings, every_rule=every_rule, is_private=is_private)
        reports, unread = [*reports, *found], unread + failed
    return write_report(reports, unread, output)
