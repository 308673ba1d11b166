"""Play the attacks on the local sandboxes and print a table: ``python -m tests.campaigns attacks [PYTEST OPTION …]``.

A row has the attack and a cell for each sandbox and user: what became of its programs, and how many there were.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "ragflow_lg" / "adapters" / "code"
FILES = ("test_attacks.py", "test_deno_attacks.py")
COLUMNS = (("bubblewrap", "root"), ("bubblewrap", "user"), ("deno", "root"), ("deno", "user"))
MAX_SEEN_CHARS = 100
MAX_SEEN = 3
_LIMIT = re.compile(r"^.* The limit is (\w+) in the section .*$")


class AttackTable:
    """A pytest plugin that collects what the programs of each test led to."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[str, str], list[tuple[str, str]]]] = {}
        """The outcomes and what was seen, by attack, sandbox and user."""
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect an attack after its fixture, which records what was seen, has ended."""
        name, _, case = report.nodeid.rpartition("::")[2].partition("[")
        attack = name.removeprefix("test_").replace("_", " ")
        if report.when == "call" and report.outcome != "passed":
            self._failed.add(report.nodeid)
            reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else "see above"
            for column in COLUMNS:
                if case.rstrip("]").startswith("-".join(column)):
                    self._add(attack, column, report.outcome, reason.removeprefix(f"Skipped: {column[0]}: "))
        if report.when == "teardown" and report.nodeid not in self._failed:
            properties: dict[str, Any] = dict(report.user_properties)
            for text in properties.get("seen", ()):
                self._add(
                    attack, (str(properties["provider"]), str(properties["user"])), "held", " ".join(text.split())
                )

    def _add(self, attack: str, column: tuple[str, str], outcome: str, seen: str) -> None:
        self.rows.setdefault(attack, {}).setdefault(column, []).append((outcome, seen))

    def write(self) -> None:
        """Print the table as Markdown."""
        print(f"| attack | {' | '.join(', '.join(column) for column in COLUMNS)} |")
        print(f"| --- {'| --- ' * len(COLUMNS)}|")
        for attack, found in sorted(self.rows.items()):
            cells = [_cell(found, provider, user) for provider, user in COLUMNS]
            print(f"| {attack} | {' | '.join(cells)} |")


def _cell(found: Mapping[tuple[str, str], Sequence[tuple[str, str]]], provider: str, user: str) -> str:
    results = found.get((provider, user), [])
    if not results:
        return "–"
    if user == "user" and results == found.get((provider, "root")):
        return "as root"
    outcomes = ", ".join(dict.fromkeys(outcome for outcome, _ in results))
    seen = dict.fromkeys(_LIMIT.sub(r"limit \1", text)[:MAX_SEEN_CHARS] for _, text in results)
    shown = "; ".join(list(seen)[:MAX_SEEN]) + ("; …" if len(seen) > MAX_SEEN else "")
    count = f" ({len(results)})" if len(results) > 1 else ""
    return f"{outcomes}{count}: {shown}".replace("|", "\\|").replace("\n", " ")


def main(options: Sequence[str]) -> int:
    """Run the tests; return pytest's exit code."""
    table = AttackTable()
    files = [str(FOLDER / name) for name in FILES]
    os.environ["ALL_SANDBOXES"] = "1"
    code = pytest.main(["-q", "-n", "0", "-p", "no:randomly", *options, *files], plugins=[table])
    table.write()
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
