"""Reports for ``ragflow-lg check --for ragflow-1.0``, of files and of a RAGFlow: text, JSON, SARIF, or a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from ragflow_lg.base.errors import CompileError, ServiceError, SettingsError
from ragflow_lg.dsl_compiler.comparison import compare_canvases
from ragflow_lg.dsl_compiler.compiler import Source
from ragflow_lg.dsl_compiler.deployment import NoDeployment
from ragflow_lg.dsl_compiler.drawing import sketch_source, to_svg
from ragflow_lg.dsl_compiler.ragflow_1 import RULES, Finding, Rule, RuleClass, as_diagnostic, examine, fix_canvas
from ragflow_lg.server.assembly.canvas_files import read_canvas
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.cli.diagnostics_output import expand_paths, to_sarif
from ragflow_lg.server.cli.diff import as_lines
from ragflow_lg.server.cli.pages import render_page
from ragflow_lg.server.cli.terminal import Style, count_of, paint, print_note, printable, replace_file

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteAgent
    from ragflow_lg.dsl_compiler.drawing.sketch import Mark


CLASSES: dict[RuleClass, tuple[str, str, Style]] = {
    "breaks": ("breaks", "break", "red"),
    "differs": ("answers differently", "answer differently", "yellow"),
    "looks": ("looks different to clients", "look different to clients", "cyan"),
}
"""What is said of one canvas and of several, and the colour."""

_EFFECTS: dict[RuleClass, tuple[str, str]] = {
    "breaks": ("breaks it", "break it"),
    "differs": ("changes its answers", "change its answers"),
    "looks": ("changes what clients see", "change what clients see"),
}
"""What one rule and several do to a canvas."""

SAME = "nothing that the rules know changes"

HEAD = (
    "RAGFlow 1.0 has a new engine. Its rules come from the source of 22 August 2026, before 1.0.0-rc1: "
    '"seen" means that the new engine ran, "read" that only its source was read. Try what matters in 1.0 itself.'
)


class Report(NamedTuple):
    """What RAGFlow 1.0 does otherwise with one canvas."""

    name: str
    source: Source
    findings: tuple[Finding, ...]
    hidden: int = 0
    """How many more findings ``--all`` shows."""

    @property
    def worst(self) -> RuleClass | None:
        """The class of the worst finding."""
        return next((class_ for class_ in CLASSES if self.count(class_)), None)

    def count(self, class_: RuleClass) -> int:
        """Return how many rules of a class are met."""
        return len({finding.rule.id for finding in self.findings if finding.rule.class_ == class_})


def report_files(paths: Sequence[Path], output: str, *, every_rule: bool, is_fixing: bool) -> tuple[list[Report], int]:
    """Examine canvases in files and folders; with ``is_fixing``, first make the safe changes in the files.

    Return the reports, and how many files are no canvas or cannot be read; the reasons are on standard error.
    """
    reports: list[Report] = []
    unread = 0
    for path in expand_paths(paths):
        try:
            if is_fixing:
                _fix_file(path, to_standard_output=output == "text")
            reports.append(_examine(str(path), read_canvas(path), every_rule))
        except (SettingsError, CompileError) as error:
            sys.stderr.write(f"ragflow-lg: {path}: {printable(str(error))}\n")
            unread += 1
    return reports, unread


def report_server(
    url: str, key_env: str, settings: Path | None, *, every_rule: bool, is_private: bool
) -> tuple[list[Report], int]:
    """Examine all agents of a running RAGFlow. Nothing is stored.

    Return the reports, and how many agents cannot be read; the reasons are on standard error.

    Raises:
        SettingsError: if the address, the key or the settings are invalid.
        ServiceError: if the server fails.
    """
    from ragflow_lg.server.assembly.ragflow_connection import find_source, load_folder_settings, read_key, with_api

    source = find_source(Path.cwd(), None, url, key_env, is_private=is_private)
    config = load_folder_settings(Path.cwd(), settings)
    agents, failures = with_api(config, source, read_key(source), _read_agents)
    reports: list[Report] = []
    for agent in agents:
        try:
            reports.append(_examine(agent.title, agent.dsl, every_rule))
        except CompileError as error:
            failures.append(f"{agent.title}: {error}")
    for failure in failures:
        sys.stderr.write(f"ragflow-lg: {printable(failure)}\n")
    return reports, len(failures)


async def _read_agents(api: RagflowApi) -> tuple[list[RemoteAgent], list[str]]:
    from ragflow_lg.adapters.ragflow_api.remote_agents import list_agents, read_agent
    from ragflow_lg.adapters.ragflow_api.remote_server import recognise

    print_note(f"The server is {(await recognise(api)).name}.")
    agents: list[RemoteAgent] = []
    failures: list[str] = []
    for row in await list_agents(api):
        try:
            agents.append(await read_agent(api, row))
        except ServiceError as error:
            failures.append(f"{row.get('title') or row.get('id')}: {error}")
    return agents, failures


def _examine(name: str, source: Source, every_rule: bool) -> Report:
    found = examine(source, catalog(), every_rule=True)
    shown = tuple(finding for finding in found if every_rule or not finding.rule.run_time)
    return Report(name, source, shown, len(found) - len(shown))


def _fix_file(path: Path, *, to_standard_output: bool) -> None:
    """Make the safe changes in a file, and print them."""
    old = read_canvas(path)
    text, mended = fix_canvas(old, catalog())
    if not mended:
        return
    replace_file(path, text.encode())
    rules = ", ".join(dict.fromkeys(finding.rule.id for finding in mended))
    print_note(f"{path}: {count_of(len(mended), 'change')} ({rules}).")
    if to_standard_output:
        lines = as_lines(compare_canvases(old, text, catalog()))
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def evidence(rule: Rule) -> str:
    """Return how a rule is known, as words."""
    how = "Seen when the new engine ran" if rule.seen else "Read in the source, not run"
    span = f", until {rule.until}" if rule.until else f", since {rule.since}" if rule.since else ""
    return f"{how}{span} ({rule.verified_against}; {rule.evidence})."


def group_by_rule(report: Report) -> list[tuple[Rule, list[Finding]]]:
    """Return the findings of each rule, the worst class first."""
    groups: dict[str, list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault(finding.rule.id, []).append(finding)
    return [(RULES[id_], found) for id_, found in groups.items()]


def describe(report: Report) -> str:
    """Return the verdict on a canvas in words, by the number of rules: ``1 breaks it, 2 change its answers``."""
    parts = [
        f"{report.count(class_)} {one if report.count(class_) == 1 else many}"
        for class_, (one, many) in _EFFECTS.items()
        if report.count(class_)
    ]
    return ", ".join(parts) or SAME


def write_report(reports: Sequence[Report], unread: int, output: str) -> int:
    """Write reports to standard output. Return the exit code: 0, 1 (answers differ), 2 (breaks) or 3 (unreadable)."""
    if output == "json":
        sys.stdout.write(as_json(reports))
    elif output == "sarif":
        rules = {rule.id: f"{rule.old} RAGFlow 1.0: {rule.new}" for rule in RULES.values()}
        diagnostics = [(Path(r.name), tuple(map(as_diagnostic, r.findings))) for r in reports]
        sys.stdout.write(to_sarif(diagnostics, rules))
    elif output == "html":
        sys.stdout.write(build_page(reports))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _as_text(reports)))
        if hidden := sum(report.hidden for report in reports):
            print_note(
                f"--all shows {count_of(hidden, 'more finding')}: about the course of a run, or nearly all canvases."
            )
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


_MARKS: dict[str, Mark] = {"breaks": "error", "differs": "changed"}


def build_page(reports: Sequence[Report]) -> str:
    """Return the page: what is known and what is not, a table of the canvases, and each canvas with its drawing."""
    from ragflow_lg import __version__

    ranked = sorted(reports, key=lambda r: (-r.count("breaks"), -r.count("differs"), -r.count("looks"), r.name))
    return render_page(
        "ragflow_1_report.html",
        title="What RAGFlow 1.0 changes" + (f" for {_title(ranked[0])}" if len(ranked) == 1 else ""),
        lead=_lead(ranked),
        head=HEAD,
        verdicts={class_: words[0] for class_, words in CLASSES.items()},
        canvases=[_describe_canvas(report) for report in ranked],
        version=__version__,
    )


def _describe_canvas(report: Report) -> dict[str, object]:
    groups = group_by_rule(report)
    fixed = [each for each in groups if all(finding.is_fixable for finding in each[1])]
    return {
        "title": _title(report),
        "worst": report.worst,
        "verdict": describe(report),
        "counts": [report.count(class_) for class_ in CLASSES],
        "advice": _what_to_do(report),
        "drawing": _drawing(report),
        "by_hand": [each for each in groups if each not in fixed],
        "fixed": fixed,
    }


def _title(report: Report) -> str:
    return Path(report.name).stem


def _lead(reports: Sequence[Report]) -> str:
    if len(reports) == 1:
        return f"Of the rules about RAGFlow 1.0, {describe(reports[0])}."
    counts = {class_: sum(report.worst == class_ for report in reports) for class_ in CLASSES}
    same = len(reports) - sum(counts.values())
    return (
        f"Of {len(reports):,} canvases, {counts['breaks']} will break, {counts['differs']} will answer differently and "
        f"{counts['looks']} will only look different to programs that read their events. "
        f"No change is known for {same}."
    )


def _what_to_do(report: Report) -> str:
    """Return a recommendation: what is left of the rules that matter once the safe changes are made."""
    matter = [(rule, found) for rule, found in group_by_rule(report) if rule.class_ != "looks"]
    left = [rule for rule, found in matter if not all(finding.is_fixable for finding in found)]
    fix = "--fix, then " if len(left) < len(matter) else ""
    if not matter:
        return "nothing, or adapt programs that read events" if report.worst else "try it"
    if not left:
        return f"{fix}try it"
    by_hand = f"{fix}{len(left)} by hand"
    return f"{by_hand}, or stay" if any(rule.class_ == "breaks" for rule in left) else by_hand


def _drawing(report: Report) -> Markup | None:
    sketch, _ = sketch_source(report.source, catalog(), NoDeployment())
    if sketch is None:
        return None
    marks: dict[str, Mark] = {}
    for finding in report.findings:
        if finding.node and finding.rule.class_ in _MARKS:
            marks.setdefault(finding.node, _MARKS[finding.rule.class_])
    return Markup(to_svg(sketch.with_marks(marks)).replace(" (changed)", "").replace(" (error)", ""))
