"""Kill every canvas of some folders at every point, on SQLite and Redis: ``python -m tests.harness.crash DIR…``."""

import sys
from pathlib import Path

from ragflow_lg.checkpoints.redis.redis_server import redis_server
from ragflow_lg.server.assembly.canvas_files import CanvasFiles
from ragflow_lg.server.devtools.chaos.chaos_runs import disturb_all
from ragflow_lg.server.settings import Settings


def main() -> int:
    """Print the result of each canvas; return 1 if any run did not recover."""
    kills = problems = 0
    settings = Settings()
    paths = [path for folder in sys.argv[1:] for path in sorted(Path(folder).glob("*.json"))]
    with redis_server() as url:
        for path in paths:
            deployment = CanvasFiles(lambda: settings, path, asks_servers=False)
            for store, name in (("", "sqlite"), (url, "redis")):
                count, differences = disturb_all(path.read_bytes(), store, deployment=deployment)
                for problem in differences:
                    sys.stdout.write(f"      {problem}\n")
                sys.stdout.write(f"{'FAIL' if differences else 'ok  '}  {name:<6}  {path.name}  {count} kills\n")
                kills, problems = kills + count, problems + len(differences)
    sys.stdout.write(f"{len(paths)} canvases, {kills} kills, {problems} differences\n")
    return 1 if problems or not paths else 0


if __name__ == "__main__":
    raise SystemExit(main())
