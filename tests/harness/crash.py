"""Kill every canvas of some folders at every point, on every store, with both kinds of durability.

``python -m tests.campaigns crash PATH…`` takes folders and files. ``--durability effects`` tests only one kind, and
``--kills 20`` at most so many kills of each canvas, evenly spread over its points.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import get_args

from ragflow_lg.server.assembly.canvas_files import CanvasFiles
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.sessions import Durability
from tests.harness.crash_points import Point
from tests.harness.crash_runs import disturb_all
from tests.harness.database_servers import server as database_server
from tests.harness.redis_server import redis_server


def main() -> int:
    """Print the result of each canvas; return 1 if any run did not recover."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--durability", choices=get_args(Durability))
    parser.add_argument("--kills", type=int, default=sys.maxsize)
    options = parser.parse_args()
    durabilities: Sequence[Durability] = [options.durability] if options.durability else get_args(Durability)

    def choose(points: list[Point]) -> list[Point]:
        return points[:: max(1, -(-len(points) // options.kills))]

    kills = problems = 0
    settings = Settings()
    paths = [path for name in options.paths for path in _canvases(name)]
    with redis_server() as redis, database_server("postgresql") as postgresql:
        stores = {"sqlite": "", "redis": redis, "postgresql": postgresql}
        for path in paths:
            deployment = CanvasFiles(lambda: settings, path, asks_servers=False)
            for (name, store), durability in product(stores.items(), durabilities):
                count, differences = disturb_all(
                    path.read_bytes(), store, choose=choose, deployment=deployment, durability=durability
                )
                for problem in differences:
                    sys.stdout.write(f"      {problem}\n")
                result = "FAIL" if differences else "ok  "
                sys.stdout.write(f"{result}  {name:<10}  {durability:<7}  {path.name}  {count} kills\n")
                sys.stdout.flush()
                kills, problems = kills + count, problems + len(differences)
    sys.stdout.write(f"{len(paths)} canvases, {kills} kills, {problems} differences\n")
    return 1 if problems or not paths else 0


def _canvases(path: Path) -> list[Path]:
    return sorted(path.glob("*.json")) if path.is_dir() else [path]


if __name__ == "__main__":
    raise SystemExit(main())
