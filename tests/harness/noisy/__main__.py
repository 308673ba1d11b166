"""``python -m tests.harness.noisy [ATTACK…]``: play attacks, and print what the neighbour noticed.

Options: ``--seconds N`` for each attack (30), ``--replicas 2`` with ``--loss killed|stopped`` for the first of them,
``--database sqlite|postgresql``, ``--json FILE``, and ``--list``. An ATTACK can be a pattern, for example ``jinja-*``.
If none is named, the selection is played; ``'*'`` plays all. An attack lasts up to three times as long until the
neighbour has taken 200 turns, because a P99 of fewer says little.
Exits with 1 if a goal was missed.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import aclosing
from fnmatch import fnmatch
from pathlib import Path

from tests.harness.noisy.attack import Attack
from tests.harness.noisy.attacks import ATTACKS
from tests.harness.noisy.campaign import Campaign, Result
from tests.harness.noisy.selection import SELECTED
from tests.harness.noisy.stage import start_services

COLUMNS = (
    "| attack | B alone P50/P99 (turns) | B P50/P99 (turns) | errors | /health P99/max | RSS before/peak/after "
    "| answers | |"
)


def _row(result: Result) -> str:
    answers = ", ".join(f"{count} × {name}" for name, count in list(result.answers.items())[:4])
    cells = [
        result.name,
        f"{result.alone_p50:.0f} / {result.alone_p99:.0f} ms ({result.alone_turns})",
        f"{result.p50:.0f} / {result.p99:.0f} ms ({result.turns})",
        str(len(result.errors)),
        f"{result.health_p99:.0f} / {result.health_max:.0f} ms",
        f"{result.rss_before:.0f} / {result.rss_peak:.0f} / {result.rss_after:.0f} MB",
        answers or "none",
        "; ".join(result.problems()) or "ok",
    ]
    return f"| {' | '.join(cells)} |"


def _choose(patterns: list[str]) -> list[Attack]:
    wanted = patterns or SELECTED
    chosen = [attack for attack in ATTACKS.values() if any(fnmatch(attack.name, pattern) for pattern in wanted)]
    if not chosen:
        raise SystemExit(f"No attack is named {' '.join(patterns)}; --list shows all.")
    return chosen


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.noisy")
    parser.add_argument("attacks", nargs="*")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--replicas", type=int, default=1, choices=(1, 2))
    parser.add_argument("--loss", choices=("killed", "stopped"), default="killed")
    parser.add_argument("--database", choices=("sqlite", "postgresql"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


async def _run(attacks: list[Attack], arguments: argparse.Namespace) -> list[Result]:
    database = arguments.database or ("postgresql" if arguments.replicas > 1 else "sqlite")
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-noisy-") as name:
        async with start_services(Path(name), has_postgresql=database == "postgresql") as services:
            campaign = Campaign(services, arguments.seconds, arguments.replicas, loss=arguments.loss)
            async with aclosing(campaign.play(attacks)) as played:
                async for result in played:
                    results.append(result)
                    sys.stdout.write(f"{_row(result)}\n")
                    sys.stdout.flush()
                    if arguments.json:
                        arguments.json.write_text(json.dumps([each.as_json() for each in results], indent=1))
    return results


def main() -> int:
    """Play the chosen attacks; return 1 if a goal was missed."""
    arguments = _read_arguments()
    attacks = _choose(arguments.attacks)
    if arguments.list:
        sys.stdout.write("".join(f"{attack.name}: {attack.summary}\n" for attack in attacks))
        return 0
    sys.stdout.write(f"{COLUMNS}\n|{' --- |' * 8}\n")
    sys.stdout.flush()
    began = time.monotonic()
    results = asyncio.run(_run(attacks, arguments))
    missed = [result for result in results if result.problems()]
    sys.stdout.write(
        f"{len(results)} attacks in {(time.monotonic() - began) / 60:.1f} minutes, {len(missed)} too slow or broken\n"
    )
    for result in missed:
        sys.stdout.write(f"  {result.name} ({result.summary}): {'; '.join(result.problems())}\n")
        sys.stdout.writelines(f"    {error}\n" for error in result.errors[:3])
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
