"""Play conformance cases: ``python -m tests.harness.conformance DIR [-k TEXT]``.

One line a case, then ``N passed, N failed, N skipped``. A case passes if our engine does what it expects, or
if it differs in exactly the way that ``deviations`` names; a deviation that is named but no longer there
fails.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ragflow_lg.errors import CompileError
from tests.harness.cases import Case, read_cases
from tests.harness.compare import differences
from tests.harness.deviations import DEVIATIONS, Deviation
from tests.harness.play import TurnResult, play

LIMIT_S = 30


@dataclass(frozen=True)
class Verdict:
    """What became of one case."""

    case: str
    outcome: Literal["pass", "fail", "skip"]
    reason: str = ""


def judge(case: Case) -> Verdict:
    """Play one case and compare."""
    if case.later:
        return Verdict(case.id, "skip", f"needs {', '.join(case.later)}")
    deviation = DEVIATIONS.get(case.id)
    results: list[TurnResult] = []
    refusal = ""
    try:
        results = asyncio.run(asyncio.wait_for(play(case), LIMIT_S))
    except CompileError as error:
        refusal = next(d.code for d in error.diagnostics if d.severity == "error")
    expects_refusal = "load_error" in case.data["expect"][0]
    if refusal or expects_refusal:
        problems = [] if refusal and expects_refusal else [f"refused: {refusal}" if refusal else "was not refused"]
    else:
        problems = differences(case, results)
    return _verdict(case, deviation, problems, refusal, results)


def _verdict(
    case: Case, deviation: Deviation | None, problems: list[str], refusal: str, results: list[TurnResult]
) -> Verdict:
    if deviation is None:
        return Verdict(case.id, "fail", "; ".join(problems)) if problems else Verdict(case.id, "pass")
    if not problems:
        return Verdict(case.id, "fail", f"no longer deviates ({deviation.row}); take it out of the table")
    if deviation.refused:
        is_right = refusal == deviation.refused
    else:
        is_right = not refusal and [result.answer for result in results] == list(deviation.answers)
    if not is_right:
        return Verdict(case.id, "fail", f"deviates otherwise than {deviation.row}: " + "; ".join(problems))
    return Verdict(case.id, "pass", f"deviates: {deviation.row}")


def judge_all(cases: Iterable[Case]) -> list[Verdict]:
    """Judge every case."""
    return [judge(case) for case in cases]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Play conformance cases.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("-k", default="", help="only cases whose id contains this text")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        sys.stderr.write(f"{arguments.folder} is no folder of case files.\n")
        return 2
    verdicts: list[Verdict] = []
    for case in read_cases(arguments.folder):
        if arguments.k in case.id:
            verdict = judge(case)
            verdicts.append(verdict)
            sys.stdout.write(f"{verdict.outcome}  {verdict.case}  {verdict.reason}".rstrip() + "\n")
    count = {outcome: sum(v.outcome == outcome for v in verdicts) for outcome in ("pass", "fail", "skip")}
    sys.stdout.write(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped\n")
    return 1 if count["fail"] or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
