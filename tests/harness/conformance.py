"""Play conformance cases: ``python -m tests.campaigns conformance DIR [-k TEXT] [-v]``.

Prints a line for each case, then ``N passed, N failed``. A case passes if our engine has the expected
result, or if it differs in exactly the fields that ``deviations`` names. A deviation that no longer differs fails.
"""

import argparse
import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragflow_lg.base.errors import CompileError
from tests.harness.cases import Case, read_cases
from tests.harness.compare import differences
from tests.harness.deviations import DEVIATIONS
from tests.harness.play import TurnResult, play
from tests.stores import OpenStore

LIMIT_S = 30
LINE_CHARS = 400


@dataclass(frozen=True)
class Verdict:
    """The result for one case."""

    case: str
    outcome: Literal["pass", "fail"]
    reason: str = ""


def judge(case: Case, reopen: OpenStore | None = None) -> Verdict:
    """Play one case and compare the results. With ``reopen`` each turn opens the store again, as a new process does."""
    expects_refusal = "load_error" in case.expected[0]
    try:
        results = asyncio.run(asyncio.wait_for(play(case, reopen), LIMIT_S))
    except CompileError as error:
        refusal = next(d.code for d in error.diagnostics if d.severity == "error")
        return _judge_refusal(case, refusal, is_expected=expects_refusal)
    if expects_refusal:
        return Verdict(case.id, "fail", "was not refused")
    return _judge_results(case, results)


def _judge_refusal(case: Case, refusal: str, *, is_expected: bool) -> Verdict:
    deviation = DEVIATIONS.get(case.id)
    if is_expected:
        return Verdict(case.id, "pass", f"refused: {refusal}")
    if deviation is not None and deviation.refused == refusal:
        return Verdict(case.id, "pass", f"deviates: {deviation.row}")
    return Verdict(case.id, "fail", f"refused: {refusal}")


def _judge_results(case: Case, results: list[TurnResult]) -> Verdict:
    problems, deviation = differences(case, results), DEVIATIONS.get(case.id)
    if deviation is None:
        return Verdict(case.id, "fail", "; ".join(problems.values())) if problems else Verdict(case.id, "pass")
    answers = [result.answer for result in results]
    if missing := sorted(deviation.fields - problems.keys()):
        return Verdict(
            case.id, "fail", f"no longer deviates ({deviation.row}) in {', '.join(missing)}; correct the table"
        )
    # Inputs repeat what other nodes have written, so they differ in most cases that deviate.
    expected = {*deviation.fields, "inputs"}
    unexpected = [problem for field, problem in problems.items() if field not in expected]
    if answers != list(deviation.answers):
        unexpected.append(f"answers {answers!r}, not {list(deviation.answers)!r}")
    unexpected += [
        f"turn {number + 1} has an unacceptable answer: {answer!r}"
        for number, answer in enumerate(answers)
        if not _is_acceptable(case, number, answer)
    ]
    if unexpected:
        return Verdict(case.id, "fail", f"deviates otherwise than {deviation.row}: " + "; ".join(unexpected))
    return Verdict(case.id, "pass", f"deviates: {deviation.row}")


def _is_acceptable(case: Case, number: int, answer: str) -> bool:
    """Return whether an answer is the expected one or, if the case names better ones, one of these."""
    alternative = case.alternative(number)
    if not alternative:
        return True
    better: Any = alternative["answer"]
    accepted: list[str] = [better] if isinstance(better, str) else better
    return answer in (*accepted, case.expected[number].get("answer"))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Play conformance cases.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("-k", default="", help="only cases whose id contains this text")
    parser.add_argument("-v", action="store_true", help="show what differs in full")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        sys.stderr.write(f"{arguments.folder} is not a folder of case files.\n")
        return 2
    verdicts: list[Verdict] = []
    for case in read_cases(arguments.folder):
        if arguments.k in case.id:
            verdict = judge(case)
            verdicts.append(verdict)
            line = f"{verdict.outcome}  {verdict.case}  {verdict.reason}".rstrip()
            sys.stdout.write((line if arguments.v or len(line) <= LINE_CHARS else line[:LINE_CHARS] + " …") + "\n")
    count = {outcome: sum(v.outcome == outcome for v in verdicts) for outcome in ("pass", "fail")}
    sys.stdout.write(f"{count['pass']} passed, {count['fail']} failed, 0 skipped\n")
    return 1 if count["fail"] or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
