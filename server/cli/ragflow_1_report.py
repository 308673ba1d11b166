"""Reports for ``ragflow-lg check --for ragflow-1.0``, of files and of a RAGFlow: text, JSON, SARIF, or a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.base.errors import CompileError, ServiceError, SettingsError
from ragflow_lg.dsl_compiler.comparison import compare_canvases
from ragflow_lg.dsl_compiler.deployment import NoDeployment
from ragflow_lg.dsl_compiler.drawing import sketch_source, to_svg
from ragflow_lg.dsl_compiler.ragflow_1 import RULES, Finding, Rule, RuleClass, as_diagnostic, examine, fix_canvas
from ragflow_lg.server.assembly.canvas_files import read_canvas
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.cli.diagnostics_output import expand_paths, to_sarif
from ragflow_lg.server.cli.diff import as_lines
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
    source: bytes
    findings: tuple[Finding, ...]

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
            reports.append(examine_source(str(path), read_canvas(path), every_rule=every_rule))
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
    from ragflow_lg.server.migration.connection import find_source, load_folder_settings, read_key, with_api

    source = find_source(Path.cwd(), None, url, key_env, is_private=is_private)
    config = load_folder_settings(Path.cwd(), settings)
    agents, failures = with_api(config, source, read_key(source), _read_agents)
    reports: list[Report] = []
    for agent in agents:
        try:
            text = json.dumps(agent.dsl, ensure_ascii=False)
            reports.append(examine_source(agent.title, text.encode(), every_rule=every_rule))
        except CompileError as error:
            failures.append(f"{agent.title}: {error}")
    for failure in failures:
        sys.stderr.write(f"ragflow-lg: {printable(failure)}\n")
    return reports, len(failures)


async def _read_agents(api: RagflowApi) -> tuple[list[RemoteAgent], list[str]]:
    from ragflow_lg.adapters.ragflow_api.remote_agents import list_agents, read_agent

    agents: list[RemoteAgent] = []
    failures: list[str] = []
    for row in await list_agents(api):
        try:
            agents.append(await read_agent(api, row))
        except ServiceError as error:
            failures.append(f"{row.get('title') or row.get('id')}: {error}")
    return agents, failures


def examine_source(name: str, source: bytes, *, every_rule: bool) -> Report:
    """Return the report for a canvas.

    Raises:
        CompileError: if it is none.
    """
    return Report(name, source, examine(source, catalog(), every_rule=every_rule))


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


_STYLE = """
:root { color-scheme: light dark; --text: #1d2733; --soft: #5b6875; --line: #d6dde4; --page: #fff; --card: #f7f9fb;
  --breaks: #b3261e; --differs: #8a5800; --looks: #1f5f99; --same: #1f7a53; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e8ee; --soft: #9aa7b4; --line: #34404c; --page: #14191f;
  --card: #1b222a; --breaks: #ff8a80; --differs: #f0b75a; --looks: #7db7ee; --same: #6fcf9f; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; color: var(--text);
  background: var(--page); max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.5rem 5rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 3.5rem 0 .25rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0; }
p { margin: .4rem 0; } .soft { color: var(--soft); } small { color: var(--soft); font-size: .8rem; }
a { color: var(--looks); }
table { border-collapse: collapse; width: 100%; margin: 1.5rem 0; }
td, th { text-align: left; padding: .5rem .75rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; font-size: .85rem; } td.number { text-align: right; }
article { border: 1px solid var(--line); border-left: 4px solid; border-radius: 8px; background: var(--card);
  margin: 1rem 0; padding: 1rem 1.25rem; break-inside: avoid; }
article.breaks { border-left-color: var(--breaks); } article.differs { border-left-color: var(--differs); }
article.looks { border-left-color: var(--looks); }
.breaks > .class, td.breaks { color: var(--breaks); } .differs > .class, td.differs { color: var(--differs); }
.looks > .class, td.looks { color: var(--looks); } td.same { color: var(--same); }
.class { font-size: .85rem; font-weight: 600; margin: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; } ul { margin: .4rem 0; padding-left: 1.2rem; }
code { font: .85em ui-monospace, SFMono-Regular, Menlo, monospace; overflow-wrap: anywhere; }
figure { margin: 1rem 0; border: 1px solid var(--line); border-radius: 8px; background: #fff; overflow: auto; }
figure svg { display: block; max-width: none; } .wide { overflow-x: auto; }
.top { font-size: .85rem; font-weight: 400; margin-left: .75rem; } summary { cursor: pointer; color: var(--soft); }
@media print { body { max-width: none; padding: 0; } figure svg { max-width: 100%; height: auto; }
  details:not([open]) > *:not(summary) { display: block; } }
td.breaks, td.differs, td.looks, td.same { white-space: nowrap; }
""".strip()

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_MARKS: dict[str, Mark] = {"breaks": "error", "differs": "changed"}

_MAX_PLACES = 12


def build_page(reports: Sequence[Report]) -> str:
    """Return the page: what is known and what is not, a table of the canvases, and each canvas with its drawing."""
    ranked = sorted(reports, key=lambda r: (-r.count("breaks"), -r.count("differs"), -r.count("looks"), r.name))
    title = "What RAGFlow 1.0 changes" + (f" for {_title(ranked[0])}" if len(ranked) == 1 else "")
    sections = "".join(_section(i, each, has_heading=len(ranked) > 1) for i, each in enumerate(ranked))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        f'<h1 id="top">{escape(title)}</h1>\n<p>{escape(_lead(ranked))}</p>\n<p class="soft">{escape(HEAD)}</p>\n'
        f"{_ADVICE}{_table(ranked) if len(ranked) > 1 else ''}{sections}"
        f'<p class="soft"><small>ragflow-lg {escape(_version())}</small></p>\n</body>\n</html>\n'
    )


def _version() -> str:
    from ragflow_lg import __version__

    return __version__


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


_ADVICE = """<details open><summary>What the words mean, and what to do</summary>
<p><b>Breaks</b>: the canvas does not load, cannot be saved, or a run of it ends with an error. <b>Answers
differently</b>: it runs, and people may get another answer. <b>Looks different to clients</b>: people get the same
answer, and programs that read events get other ones.</p>
<ol><li>Run <code>ragflow-lg check --for ragflow-1.0 --fix</code> on the exported files: it makes the changes that
change nothing on 0.27. Import the files in RAGFlow's editor.</li>
<li>Change by hand what is left, or decide that it does not matter.</li>
<li>Try the canvas in RAGFlow 1.0 on a copy of your data: an upgrade is only possible from 0.27.2, and cannot be
undone.</li>
<li>A canvas that 1.0 breaks can stay on 0.27, or go on in ragflow-lg, which runs it as 0.27 does.</li></ol>
<p><code>--all</code> also reports what depends on the course of a run, such as repetitions after errors, or a model
that answers with more than the name of a category.</p></details>
"""


def _table(reports: Sequence[Report]) -> str:
    names = ("Canvas", "Verdict", "Break", "Differ", "Look different", "What to do")
    rows = "".join(
        f'<tr><td><a href="#canvas-{index}">{escape(_title(report))}</a></td>'
        f'<td class="{report.worst or "same"}">{CLASSES[report.worst][0] if report.worst else "no change known"}</td>'
        + "".join(f'<td class="number">{report.count(class_) or ""}</td>' for class_ in CLASSES)
        + f"<td>{_what_to_do(report)}</td></tr>\n"
        for index, report in enumerate(reports)
    )
    heads = "".join(f"<th>{name}</th>" for name in names)
    return f'<div class="wide"><table>\n<tr>{heads}</tr>\n{rows}</table></div>\n'


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


def _section(index: int, report: Report, *, has_heading: bool) -> str:
    groups = group_by_rule(report)
    mended = [(rule, found) for rule, found in groups if all(finding.is_fixable for finding in found)]
    cards = "".join(_card(rule, found) for rule, found in groups if (rule, found) not in mended)
    if mended:
        count = count_of(len(mended), "change")
        cards += (
            f"<details><summary>{count} that --fix makes</summary>{''.join(_card(*each) for each in mended)}</details>"
        )
    title = escape(_title(report))
    top = '<a class="top" href="#top">↑ all canvases</a>'
    heading = (
        f'<h2 id="canvas-{index}">{title} {top}</h2>\n<p class="soft">{escape(describe(report))}. '
        if has_heading
        else "<p>"
    )
    return f"{heading}What to do: {_what_to_do(report)}.</p>\n{_drawing(report)}{cards}"


def _drawing(report: Report) -> str:
    sketch, _ = sketch_source(report.source, catalog(), NoDeployment())
    if sketch is None:
        return ""
    marks: dict[str, Mark] = {}
    for finding in report.findings:
        if finding.node and finding.rule.class_ in _MARKS:
            marks.setdefault(finding.node, _MARKS[finding.rule.class_])
    svg = to_svg(sketch.with_marks(marks)).replace(" (changed)", "").replace(" (error)", "")
    return (
        "<details open><summary>The canvas. A thick red frame breaks, a thick yellow frame answers differently; other "
        f"colours only show kinds of nodes.</summary>\n<figure>{svg}</figure></details>\n"
    )


def _card(rule: Rule, found: Sequence[Finding]) -> str:
    name = CLASSES[rule.class_][0]
    fix = " · <code>--fix</code> changes it" if any(finding.is_fixable for finding in found) else ""
    places = "".join(f"<li>{_place(finding)}</li>" for finding in found[:_MAX_PLACES])
    more = f"<li>and {len(found) - _MAX_PLACES} more</li>" if len(found) > _MAX_PLACES else ""
    change = "No setting makes both do the same." if rule.change == "None." else rule.change
    known = "Seen when the new engine ran" if rule.seen else "Read in the source of the new engine, not run"
    return (
        f'<article class="{rule.class_}"><p class="class">{escape(name.capitalize())}{fix}</p>\n'
        f"<ul>{places}{more}</ul>\n<dl><dt>0.27</dt><dd>{_text(rule.old)}</dd>"
        f"<dt>1.0</dt><dd>{_text(rule.new)}</dd><dt>Change</dt><dd>{_text(change)}</dd></dl>\n"
        f"<small><code>{rule.id}</code>. {known}.</small></article>\n"
    )


def _place(finding: Finding) -> str:
    node = f"<b>{escape(finding.title or finding.node)}</b>" if finding.node else "The canvas"
    line = f' <span class="soft">line {finding.line}</span>' if finding.line else ""
    return f"{node}{f': {escape(finding.detail)}' if finding.detail else ''}{line}"


def _text(text: str) -> str:
    """Return a text of a rule with its code marked."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
