"""Count the recorded cases that have RAGFlow's result in every field: ``python -m tests.campaigns agreement DIR``.

Each case is played twice, by default and with all of RAGFlow's behaviours. Prints the cases in which the two differ,
and how many agree, in total and for the cases whose recorded behaviour is a fault (``quirk``).
"""

import argparse
import asyncio
import sys
from collections import Counter
from pathlib import Path

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl.compatibility import RAGFLOW
from tests.harness.cases import Case, read_cases
from tests.harness.compare import differences
from tests.harness.play import play


def find_differing_fields(case: Case) -> set[str]:
    """Return the fields in which our result differs from the recording; deviations are not taken into account."""
    expects_refusal = "load_error" in case.expected[0]
    try:
        results = asyncio.run(play(case))
    except CompileError:
        return set() if expects_refusal else {"load_error"}
    return {"load_error"} if expects_refusal else set(differences(case, results))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Count the cases that have RAGFlow's result.")
    parser.add_argument("folder", type=Path)
    counts: Counter[tuple[str, str]] = Counter()
    for case in read_cases(parser.parse_args().folder):
        by_default = find_differing_fields(case)
        with_compatibility = find_differing_fields(case.with_compatibility(RAGFLOW))
        for kind in ("all", "quirk") if case.data.get("quirk") else ("all",):
            counts[kind, "cases"] += 1
            counts[kind, "agree"] += not by_default
            counts[kind, "agree with compat"] += not with_compatibility
        if by_default != with_compatibility:
            fields = ", ".join(sorted(with_compatibility)) or "none"
            sys.stdout.write(f"{case.id}: {', '.join(sorted(by_default)) or 'none'} → {fields}\n")
    for (kind, name), number in sorted(counts.items()):
        sys.stdout.write(f"{kind}: {number} {name}\n")
    return 0 if counts else 1


if __name__ == "__main__":
    raise SystemExit(main())
