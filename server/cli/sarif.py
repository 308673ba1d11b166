"""Diagnostics as SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from ragflow_lg.base.diagnostics import CODES, Diagnostic

__all__ = ["to_sarif"]

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def to_sarif(reports: Iterable[tuple[Path, tuple[Diagnostic, ...]]]) -> str:
    """Return the diagnostics of all files as one SARIF run."""
    rules = [{"id": code, "shortDescription": {"text": text}} for code, text in CODES.items()]
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
