"""What ``ragflow-lg check --for ragflow-1.0`` writes: text, JSON, SARIF, or a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragflow_lg.dsl_compiler.ragflow_1 import RULES, Finding, Rule, as_diagnostic
from ragflow_lg.server.cli.diagnostics_output import to_sarif
from ragflow_lg.server.cli.ragflow_1_report import CLASSES, HEAD, Report, describe, evidence, group_by_rule
from ragflow_lg.server.cli.terminal import Style, count_of, paint, printable


def write_report(reports: Sequence[Report], unread: int, output: str) -> int:
    """Write reports to standard output. Return the exit code: 0, 1 (answers differ), 2 (breaks) or 3 (unreadable)."""
    if output == "json":
        sys.stdout.write(as_json(reports))
    elif output == "sarif":
        rules = {rule.id: f"{rule.old} RAGFlow 1.0: {rule.new}" for rule in RULES.values()}
        diagnostics = [(Path(r.name), tuple(map(as_diagnostic, r.findings))) for r in reports]
        sys.stdout.write(to_sarif(diagnostics, rules))
    elif output == "html":
        from ragflow_lg.server.cli.ragflow_1_page import build_page

        sys.stdout.write(build_page(reports))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _as_text(reports)))
    if unread:
        return 3
    worst = {report.worst for report in reports}
    return 2 if "breaks" in worst else int("differs" in worst)


def as_json(reports: Sequence[Report]) -> str:
    """Return reports as JSON."""
    documents = [
        {
            "file": report.name,
            "verdict": report.worst or "same",
            **{class_: report.count(class_) for class_ in CLASSES},
            "findings": [_as_dict(finding) for finding in report.findings],
        }
        for report in reports
    ]
    return json.dumps(documents, ensure_ascii=False, indent=2) + "\n"


def _as_dict(finding: Finding) -> dict[str, object]:
    rule = finding.rule
    return {
        "rule": rule.id,
        "class": rule.class_,
        "node": finding.node,
        "title": finding.title,
        "pointer": finding.pointer,
        "line": finding.line,
        "column": finding.column,
        "detail": finding.detail,
        "ragflow_0_27": rule.old,
        "ragflow_1_0": rule.new,
        "change": rule.change,
        "fixable": finding.is_fixable,
        "evidence": evidence(rule),
        "since": rule.since,
        "until": rule.until,
    }


def _as_text(reports: Sequence[Report]) -> Iterator[str]:
    yield paint(HEAD, "dim")
    for report in reports:
        yield ""
        style: Style = CLASSES[report.worst][2] if report.worst else "green"
        yield f"{paint(printable(report.name), 'bold')}: {paint(describe(report), 'bold', style)}"
        for rule, found in group_by_rule(report):
            yield from _rule_lines(rule, found)
    if len(reports) > 1:
        counts = [sum(report.worst == class_ for report in reports) for class_ in CLASSES]
        words = [f"{n} {one if n == 1 else many}" for n, (one, many, _) in zip(counts, CLASSES.values(), strict=True)]
        yield ""
        yield f"{count_of(len(reports), 'canvas', 'canvases')}: {', '.join(words)}, {len(reports) - sum(counts)} same"


def _rule_lines(rule: Rule, found: Sequence[Finding]) -> Iterator[str]:
    name, _, style = CLASSES[rule.class_]
    yield f"  {paint(name, 'bold', style)} {rule.id}{' (--fix)' if any(f.is_fixable for f in found) else ''}"
    for finding in found[:6]:
        place = f"line {finding.line}" if finding.line else finding.pointer
        node = f"{finding.title or finding.node}, " if finding.node else ""
        yield f"    at {printable(node)}{place}{f': {printable(finding.detail)}' if finding.detail else ''}"
    if len(found) > 6:
        yield f"    and at {len(found) - 6} more places"
    yield f"    0.27: {rule.old}"
    yield f"    1.0:  {rule.new}"
    if rule.change != "None.":
        yield f"    → {rule.change}"
    yield paint(f"    {evidence(rule)}", "dim")
