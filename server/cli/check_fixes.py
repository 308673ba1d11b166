"""Safe fixes of canvas files: ``ragflow-lg check --fix``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.dsl_compiler.json_spans import apply_fixes
from ragflow_lg.server.cli.output_file import replace_file
from ragflow_lg.server.cli.terminal import print_note

_BOM = "\ufeff"


def fix_file(path: Path, diagnostics: Sequence[Diagnostic]) -> bool:
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
    replace_file(path, (mark + text).encode())
    for diagnostic in applied:
        assert diagnostic.fix is not None
        print_note(f"{path}:{diagnostic.line}: {diagnostic.fix.title} ({diagnostic.code}).")
    return True
