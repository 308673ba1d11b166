"""What ``ragflow-lg check`` finds in canvas files, written for people or for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.dsl_compiler.source import split_lines
from ragflow_lg.server.assembly.canvas_files import NO_CANVAS
from ragflow_lg.server.assembly.library import check_file
from ragflow_lg.server.cli.terminal import counted, printable

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

__all__ = ["Output", "check_as_asked", "check_files"]


class Output(StrEnum):
    """How to write the findings."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check_as_asked(arguments: Sequence[str]) -> int | None:
    """Check what ``check`` is given, if these are files and at most ``--output``; give the exit code.

    None: the whole command line has to be understood. To load what does that would take longer than the check.
    """
    left, files, output = list(arguments), list[Path](), "text"
    while left:
        word = left.pop(0)
        if word in ("-o", "--output") and left:
            output = left.pop(0)
        elif word.startswith("-"):
            return None
        else:
            files.append(Path(word))
    return check_files(files, Output(output), None) if files and output in list(Output) else None


def check_files(files: Sequence[Path], output: Output, settings: Path | None) -> int:
    """Check canvases and write what was found to standard output; give the exit code of the command.

    ``settings`` is the settings file, None for the one that is always read.
    """
    found: list[tuple[Path, tuple[Diagnostic, ...], str]] = []
    unreadable = False

    def read() -> Settings:
        from ragflow_lg.server.settings import load_settings

        return load_settings(settings)

    for path in files:
        if path.name == NO_CANVAS and len(files) > 1:  # files that were named by a pattern
            sys.stderr.write(f"{printable(str(path))} is left out: it is LangGraph's configuration, no canvas.\n")
            continue
        try:
            _, diagnostics, text = check_file(path, read)
        except SettingsError as error:
            sys.stderr.write(f"ragflow-lg: {error}\n")
            unreadable = True
            continue
        found.append((path, diagnostics, text))
    if output is Output.JSON:
        sys.stdout.write(_as_json(found))
    elif output is Output.SARIF:
        from ragflow_lg.server.cli.sarif import to_sarif

        sys.stdout.write(to_sarif((path, diagnostics) for path, diagnostics, _ in found))
    else:
        for path, diagnostics, text in found:
            sys.stdout.write(_as_text(path, diagnostics, text))
    has_errors = any(d.severity == "error" for _, diagnostics, _ in found for d in diagnostics)
    return 2 if unreadable else int(has_errors)


def _as_json(found: list[tuple[Path, tuple[Diagnostic, ...], str]]) -> str:
    documents = [
        {
            "file": str(path),
            "runs": not any(d.severity == "error" for d in diagnostics),
            "diagnostics": [d.as_dict() for d in diagnostics],
        }
        for path, diagnostics, _ in found
    ]
    return json.dumps(documents, ensure_ascii=False, indent=2) + "\n"


def _as_text(path: Path, diagnostics: tuple[Diagnostic, ...], text: str) -> str:
    lines = split_lines(text)
    parts: list[str] = []
    for diagnostic in diagnostics:
        who = f" [{diagnostic.title or diagnostic.node}]" if diagnostic.node else ""
        place = f":{diagnostic.line}:{diagnostic.column}" if diagnostic.line else ""
        parts.append(f"{path}{place}: {diagnostic.severity} {diagnostic.code}{who}")
        parts.append(f"  {diagnostic.message}")
        if 0 < diagnostic.line <= len(lines):
            parts += _excerpt(lines[diagnostic.line - 1], diagnostic.line, diagnostic.column)
        if diagnostic.hint:
            parts.append(f"  → {diagnostic.hint}")
    errors = sum(d.severity == "error" for d in diagnostics)
    warnings = sum(d.severity == "warning" for d in diagnostics)
    verdict = "cannot run" if errors else "can run"
    parts.append(f"{path}: {verdict} ({counted(errors, 'error')}, {counted(warnings, 'warning')})")
    return "\n".join(printable(part).replace("\n", " ") for part in parts) + "\n"


def _excerpt(line: str, number: int, column: int) -> list[str]:
    """Show the place with a caret; a long line is cut round it."""
    start = max(0, column - 40)
    shown = line[start : start + 90].replace("\t", " ")
    return [f"  {number:>5} | {shown}", f"        | {' ' * (column - 1 - start)}^"]
