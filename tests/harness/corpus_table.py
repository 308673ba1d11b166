"""What every stage makes of real canvases, as a table: ``python -m tests.campaigns corpus-table DIR``.

``DIR`` is a corpus as `tests.harness.corpus` reads it. A line for each canvas: the upgrade (components before → after,
and whether upgrading again changes nothing), errors, warnings and infos of ``check``, the verdict of a run, whether it
comes back from DSL v2, how many of its needs empty settings lack, and whether the package that ``eject`` writes has
the same in three turns, with its lines of Python. The same by folder and the findings by code follow.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import upgrade_source
from ragflow_lg.dsl_compiler.upgrade import count_components
from ragflow_lg.server.assembly.canvas_needs import list_needs
from ragflow_lg.server.assembly.library import check_file
from ragflow_lg.server.settings import Settings, load_settings
from tests.harness import ejected
from tests.harness.corpus import find_canvases, judge
from tests.harness.v2_closure import find_closure_problem

CATALOG = load_catalog()


@dataclass(frozen=True)
class Row:
    """What the stages made of one canvas."""

    era: str
    name: str
    upgrade: str
    is_upgrade_stable: bool
    can_run: bool
    diagnostics: tuple[Diagnostic, ...]
    run: str
    has_passed: bool
    closure: str
    eject: str = "-"
    """``equal``, ``different``, ``unsupported``, or ``-`` if the canvas cannot run."""
    lines: int = 0
    """Lines of Python that ``eject`` writes."""
    needs: Counter[str] = field(default_factory=Counter[str])

    @property
    def is_as_expected(self) -> bool:
        """Whether every stage has the result that it should have."""
        return self.has_passed and self.is_upgrade_stable and not self.closure and self.eject in ("-", "equal")

    def count(self, severity: str) -> int:
        """Return the number of diagnostics of a severity."""
        return sum(d.severity == severity for d in self.diagnostics)

    def line(self) -> str:
        """Return the line of the table."""
        counts = f"{self.count('error')}E {self.count('warning')}W {self.count('info')}I"
        needs = f"{self.needs['missing']} of {self.needs.total()}" if self.can_run else "-"
        cells = (
            "ok" if self.is_as_expected else "FAIL",
            f"{self.era}/{self.name}"[:52],
            self.upgrade or "-",
            counts,
            self.run[:28],
            self.closure or "closed",
            needs,
            f"{self.eject} {self.lines or ''}",
        )
        return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


HEADS = ("", "canvas", "upgrade", "check", "run", "DSL v2", "needs missing", "eject")
WIDTHS = (4, 52, 14, 12, 28, 8, 13, 17)


def examine(path: Path, settings: Settings) -> Row:
    """Let every stage read one canvas."""
    era, source = path.parent.name, path.read_bytes()
    upgrade, is_stable = "", True
    changes = upgrade_source(source, CATALOG).changes if era != "pipeline" else ()
    if changes:
        upgraded = upgrade_source(source, CATALOG).document
        inner = upgraded.get("dsl", upgraded)
        is_stable = upgrade_source(upgraded, CATALOG).document == upgraded
        before = sum(bool(change.name) for change in changes)
        upgrade = f"{before} → {count_components(inner)}" + ("" if is_stable else " UNSTABLE")
    plan, diagnostics, _ = check_file(path, lambda: settings)
    verdict = judge(path)
    needs = Counter(need.state for need in list_needs(plan, settings)) if plan is not None else Counter[str]()
    closure = find_closure_problem(path)
    ejection = ejected.judge_file(path)
    return Row(
        era,
        path.stem,
        upgrade,
        is_stable,
        plan is not None,
        diagnostics,
        verdict.text,
        verdict.has_passed,
        closure,
        "-" if ejection.state == "refused" else ejection.state,
        ejection.lines,
        needs,
    )


def write_summary(rows: list[Row]) -> list[str]:
    """Return the figures by folder, and the findings by severity and code."""
    lines = ["", f"{'folder':<12} canvases  upgraded  can run  as expected  v2 closed  eject equal  needs missing/all"]
    for era in dict.fromkeys(row.era for row in rows):
        own = [row for row in rows if row.era == era]
        upgraded = sum(bool(row.upgrade) and row.is_upgrade_stable for row in own)
        missing, needs = sum(row.needs["missing"] for row in own), sum(row.needs.total() for row in own)
        counts = (len(own), upgraded, sum(r.can_run for r in own), sum(r.has_passed for r in own))
        counts += (sum(not row.closure for row in own), sum(row.eject == "equal" for row in own))
        cells = (f"{count:>{width}}" for count, width in zip(counts, (8, 8, 7, 11, 9, 11), strict=True))
        lines.append(f"{era:<12} {'  '.join(cells)}  {missing:>8}/{needs}")
    for severity in ("error", "warning", "info"):
        lines += ["", f"{severity:<26} findings  canvases  by folder"]
        by_code = Counter(d.code for row in rows for d in row.diagnostics if d.severity == severity)
        for code, count in by_code.most_common():
            eras = Counter(r.era for r in rows if any((d.code, d.severity) == (code, severity) for d in r.diagnostics))
            folders = ", ".join(f"{era} {number}" for era, number in eras.items())
            lines.append(f"{code:<26} {count:>8}  {eras.total():>8}  {folders}")
    return lines


def print_table(folder: Path) -> int:
    """Print the table; return 1 if a canvas has another result than expected."""
    with tempfile.TemporaryDirectory() as empty:
        file = Path(empty) / "settings.toml"
        file.write_text("")
        settings = load_settings(file)
    print("  ".join(f"{head:<{width}}" for head, width in zip(HEADS, WIDTHS, strict=True)).rstrip())
    rows: list[Row] = []
    for path in find_canvases(folder):
        rows.append(examine(path, settings))
        print(rows[-1].line(), flush=True)
    print("\n".join(write_summary(rows)))
    return 0 if rows and all(row.is_as_expected for row in rows) else 1


def main() -> int:
    """Run from the command line."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.stderr.write("Usage: python -m tests.campaigns corpus-table DIR\n")
        return 2
    return print_table(Path(sys.argv[1]))


if __name__ == "__main__":
    raise SystemExit(main())
