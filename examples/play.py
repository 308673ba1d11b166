"""Draw the first example and run it with the demo model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).with_name("customer_service_router.json")
QUESTION = "Where is my parcel?"


def main() -> int:
    """Run both commands; return the exit code of the first command that fails."""
    for title, arguments in (
        (f"Drawing of {EXAMPLE.name}", ["canvas", "draw", str(EXAMPLE)]),
        (f"Answer to {QUESTION!r}", ["run", str(EXAMPLE), QUESTION, "--model", "demo", "--events", "pretty"]),
    ):
        sys.stdout.write(f"\n== {title}\n\n")
        sys.stdout.flush()
        code = subprocess.run(
            [sys.executable, "-m", "ragflow_lg", *arguments], stderr=subprocess.STDOUT, check=False
        ).returncode
        if code:
            return code
    sys.stdout.write(
        f"\nNext: .venv/bin/ragflow-lg run examples/{EXAMPLE.name} 'The lamp arrived broken' --model demo\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
