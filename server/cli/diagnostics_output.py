"""Reports for ``ragflow-lg check``: text, JSON or SARIF."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

from ragflow_lg.base.diagnostics import CODES, Diagnostic
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.dsl_compiler.json_spans import apply_fixes
from ragflow_lg.dsl_compiler.source import split_lines
from ragflow_lg.server.assembly.canvas_files import NO_CANVAS, find_canvases
from ragflow_lg.server.assembly.library import check_file
from ragflow_lg.server.cli.terminal import Style, count_of, paint, print_note, printable

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_LACKING = ("model-unavailable", "key-missing", "dataset-unknown", "account-missing", "memory-unknown")
"""What the settings lack, for any number of nodes."""
_STYLES: dict[str, Style] = {"error": "red", "warning": "yellow", "info": "cyan"}


def to_sarif(reports: Iterable[tuple[Path, tuple[Diagnostic, ...]]], codes: Mapping[str, str] = CODES) -> str:
    """Return the diagnostics of all files as one SARIF run, with the table of their codes."""
    rules = [{"id": code, "shortDescription": {"text": text}} for code, text in codes.items()]
    results = [_result(path, d) for path, diagnostics in reports for d in diagnostics]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": "ragflow-lg", "rules": rules}}, "results": results}],
    }
    return json.dumps(log, ensure_ascii=False, indent=2) + "\n"


def _result(path: Path, diagnostic: Diagnostic) -> dict[str, object]:
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    region = {"startLine": max(diagnostic.line, 1), "startColumn": max(diagnostic.column, 1)}
    return {
        "ruleId": diagnostic.code,
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": f"{diagnostic.message} {diagnostic.hint}".strip()},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": uri}, "region": region},
                "logicalLocations": [{"fullyQualifiedName": diagnostic.pointer or "/"}],
            }
        ],
    }


ReportFormat: TypeAlias = Literal["text", "json", "sarif"]


def check_files(
    files: Sequence[Path],
    output: ReportFormat,
    settings: Path | None,
    tenant: str = "",
    *,
    is_ready: bool = False,
    is_fixing: bool = False,
) -> int:
    """Check canvases, write the report to standard output and return the command's exit code.

    ``settings`` is the settings file; None means the default file. With a ``tenant``, canvases are checked as if it had
    uploaded them to a server with several tenants. With ``is_ready``, it is an error if the settings lack something.
    With ``is_fixing``, the safe fixes are applied first.
    """
    reports: list[tuple[Path, tuple[Diagnostic, ...], str]] = []
    unread = 0

    def load() -> Settings:
        from ragflow_lg.server.settings import load_settings

        return _restrict(load_settings(settings), tenant)

    for path in expand_paths(files):
        if path.name == NO_CANVAS and len(files) > 1:  # the files were probably named by a pattern
            print_note(f"{path} is skipped: it is the configuration of LangGraph, not a canvas.")
            continue
        try:
            severity = "error" if is_ready else "warning"
            check_one = partial(check_file, path, load, is_uploaded=bool(tenant), missing_severity=severity)
            _, diagnostics, text = check_one()
            if is_fixing and _fix_file(path, diagnostics):
                _, diagnostics, text = check_one()
        except SettingsError as error:
            sys.stderr.write(f"ragflow-lg: {error}\n")
            unread += 1
            continue
        reports.append((path, diagnostics, text))
    if output == "json":
        sys.stdout.write(_as_json(reports))
    elif output == "sarif":
        sys.stdout.write(to_sarif((path, diagnostics) for path, diagnostics, _ in reports))
    else:
        for path, diagnostics, text in reports:
            sys.stdout.write(_as_text(path, diagnostics, text))
        if len(reports) + unread > 1:
            sys.stdout.write(_summarize([diagnostics for _, diagnostics, _ in reports], unread))
    has_errors = any(d.severity == "error" for _, diagnostics, _ in reports for d in diagnostics)
    return 2 if unread else int(has_errors)


_BOM = "\ufeff"


def _fix_file(path: Path, diagnostics: Sequence[Diagnostic]) -> bool:
    """Apply the safe fixes to a file and report each of them. Return whether the file has changed.

    Everything else in the file stays as it is: order, indentation, line ends, a byte order mark.
    """
    if not any(diagnostic.fix for diagnostic in diagnostics):
        return False
    try:
        whole = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        print_note(f"{path} is not UTF-8; nothing is fixed.")
        return False
    mark = _BOM if whole.startswith(_BOM) else ""
    text, applied = apply_fixes(whole.removeprefix(_BOM), diagnostics)
    if not applied:
        return False
    from ragflow_lg.server.cli.terminal import replace_file

    replace_file(path, (mark + text).encode())
    for diagnostic in applied:
        assert diagnostic.fix is not None
        print_note(f"{path}:{diagnostic.line}: {diagnostic.fix.title} ({diagnostic.code}).")
    return True


def _restrict(settings: Settings, tenant: str) -> Settings:
    from ragflow_lg.server.assembly.tenant_settings import find_rights, restrict_settings

    rights = find_rights(settings, tenant, "") if tenant else None
    return settings if rights is None else restrict_settings(settings, tenant, rights)


def expand_paths(paths: Iterable[Path]) -> Iterable[Path]:
    """Yield the files, and the canvases in the folders."""
    for path in paths:
        if not path.is_dir():
            yield path
        elif canvases := find_canvases(path):
            yield from canvases
        else:
            print_note(f"There is no canvas in {path}.")


def _as_json(reports: list[tuple[Path, tuple[Diagnostic, ...], str]]) -> str:
    documents = [
        {
            "file": str(path),
            "runs": not any(d.severity == "error" for d in diagnostics),
            "diagnostics": [{**d.as_dict(), "fix": d.fix.title if d.fix else None} for d in diagnostics],
        }
        for path, diagnostics, _ in reports
    ]
    return json.dumps(documents, ensure_ascii=False, indent=2) + "\n"


def _as_text(path: Path, diagnostics: tuple[Diagnostic, ...], text: str) -> str:
    lines = split_lines(text)
    parts: list[str] = []
    for diagnostic, others in _group(diagnostics):
        style = _STYLES[diagnostic.severity]
        node = f" [{diagnostic.title or diagnostic.node}]" if diagnostic.node else ""
        position = f":{diagnostic.line}:{diagnostic.column}" if diagnostic.line else ""
        place, code = paint(_one_line(f"{path}{position}:"), "bold"), paint(diagnostic.severity, "bold", style)
        parts.append(f"{place} {code} {_one_line(diagnostic.code + node)}")
        parts.append(_one_line(f"  {diagnostic.message}"))
        if 0 < diagnostic.line <= len(lines):
            parts += _excerpt(lines[diagnostic.line - 1], diagnostic.line, diagnostic.column, style)
        if others:
            places = (f"{d.title or d.node} ({d.line}:{d.column})" for d in others)
            parts.append(_one_line(f"  also in {', '.join(places)}"))
        if diagnostic.hint:
            parts.append(_one_line(f"  → {diagnostic.hint}"))
    errors = sum(d.severity == "error" for d in diagnostics)
    warnings = sum(d.severity == "warning" for d in diagnostics)
    verdict = paint("cannot run", "bold", "red") if errors else paint("can run", "green")
    counts = f"({count_of(errors, 'error')}, {count_of(warnings, 'warning')})"
    parts.append(f"{_one_line(str(path))}: {verdict} {counts}")
    return "\n".join(parts) + "\n"


def _group(diagnostics: Iterable[Diagnostic]) -> Iterator[tuple[Diagnostic, Sequence[Diagnostic]]]:
    """Yield what several nodes lack once, with the other places."""
    groups: dict[object, list[Diagnostic]] = {}
    for d in diagnostics:
        key = (d.code, d.severity, d.message, d.hint) if d.code in _LACKING else d
        groups.setdefault(key, []).append(d)
    for first, *others in groups.values():
        yield first, others


def _summarize(reports: Sequence[tuple[Diagnostic, ...]], unread: int) -> str:
    """Return a line about all canvases: ``3 canvases: 2 can run, 1 cannot run (4 errors, 1 warning)``."""
    failed = sum(any(d.severity == "error" for d in diagnostics) for diagnostics in reports)
    severities = [d.severity for diagnostics in reports for d in diagnostics]
    parts = [
        paint(f"{len(reports) - failed:,} can run", "green") if failed < len(reports) else "",
        paint(f"{failed:,} cannot run", "bold", "red") if failed else "",
        paint(f"{unread:,} cannot be read", "bold", "red") if unread else "",
    ]
    total = count_of(len(reports) + unread, "canvas", "canvases")
    counts = f"({count_of(severities.count('error'), 'error')}, {count_of(severities.count('warning'), 'warning')})"
    return f"{total}: {', '.join(part for part in parts if part)} {counts}\n"


def _one_line(text: str) -> str:
    return printable(text).replace("\n", " ")


def _excerpt(line: str, number: int, column: int, style: Style) -> list[str]:
    """Return the line with a caret below the column; a long line is cut to 90 characters around it."""
    start = max(0, column - 40)
    excerpt = printable(line[start : start + 90].replace("\t", " "))
    caret = paint("^", "bold", style)
    return [
        paint(f"  {number:>5} | ", "dim") + excerpt,
        paint("        | ", "dim") + " " * (column - 1 - start) + caret,
    ]
