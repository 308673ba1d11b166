"""``python -m tests.campaigns noisy [ATTACK…]``: play attacks of one tenant, and print what another one noticed.

Options: ``--seconds N`` for each attack (30) and ``--list``. Exits with 1 if a goal was missed.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.harness.noisy.attacks import ATTACKS
from tests.harness.noisy.campaign import play_all
from tests.harness.noisy.stage import open_stage


async def _run(names: list[str], seconds: float) -> int:
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-noisy-") as folder:
        async with open_stage(Path(folder)) as stage:
            return await play_all(stage, names, seconds)


def main() -> int:
    """Play the chosen attacks; return 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns noisy")
    parser.add_argument("attacks", nargs="*", choices=[[], *ATTACKS])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        sys.stdout.write("".join(f"{name}: {attack.summary}\n" for name, attack in ATTACKS.items()))
        return 0
    return 1 if asyncio.run(_run(arguments.attacks, arguments.seconds)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
