"""Benchmark: how long `to_json` takes for large values: ``python -m benchmarks.large_values``.

Each ratio compares plain JSON with the same value plus one tuple, which is converted entry by entry. The two are
measured alternately in the same run.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from ragflow_lg.base.values import MAX_ITEMS, to_json

ENTRIES = MAX_ITEMS - 4

ROUNDS = 9

VALUES: dict[str, Any] = {
    "integers": list(range(ENTRIES)),
    "decimals": [n / 3 for n in range(ENTRIES)],
    "texts": [str(n) * 3 for n in range(ENTRIES)],
    "texts with umlauts": [f"ü{n}" for n in range(ENTRIES)],
    "a map of integers": {str(n): n for n in range(ENTRIES)},
    "rows": [{"id": n, "name": str(n), "note": None} for n in range(ENTRIES // 4)],
}


def with_tuple(value: Any) -> Any:
    """Return the value with a tuple in it."""
    return {**value, "": (0,)} if isinstance(value, dict) else [*value, (0,)]


def _seconds(value: Any) -> float:
    start = time.perf_counter()
    to_json(value)
    return time.perf_counter() - start


def main() -> None:
    """Print the median times and ratios."""
    print(f"{'value':20} {'plain':>10} {'with tuple':>10} {'ratio':>6}")
    for name, value in VALUES.items():
        converted = with_tuple(value)
        pairs = [(_seconds(value), _seconds(converted)) for _ in range(ROUNDS)]
        plain, other = statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{name:20} {plain * 1000:7.1f} ms {other * 1000:7.1f} ms {ratio:5.1f}x")


if __name__ == "__main__":
    main()
