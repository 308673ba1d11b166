"""Measure spreadsheets with many rows: ``python -m benchmarks.spreadsheets [ROWS]``.

Each operation runs in a process of its own, as in a worker, so that its peak memory is known. A tenth of the rows is
measured as well: memory that grows with the rows would show.
"""

from __future__ import annotations

import base64
import multiprocessing
import resource
import sys
import time
from typing import Any

from ragflow_lg.base.spreadsheets.spreadsheet_tasks import (
    Merging,
    Reading,
    convert_spreadsheets,
    merge_spreadsheets,
    read_spreadsheets,
)

ROWS = 100_000
SHOWN_ROWS = 1_000


def _text(rows: int) -> bytes:
    return b"id,name,price,city,ok\n" + b"".join(b"%d,name %d,1.25,Rome,TRUE\n" % (n, n) for n in range(rows))


def _book(rows: int) -> bytes:
    written: Any = convert_spreadsheets(Reading([("a.csv", _text(rows))]), None, "xlsx", False)
    return b"".join(map(base64.b64decode, written["parts"]))


def _measure(operation: str, name: str, content: bytes, results: Any) -> None:
    reading = Reading([(name, content)], max_rows=SHOWN_ROWS)
    start = time.perf_counter()
    if operation == "read":
        read_spreadsheets(reading)
    elif operation == "merge":
        merge_spreadsheets(reading, Merging())
    else:
        convert_spreadsheets(reading, None, "xlsx", False)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results.put((time.perf_counter() - start, peak_kib / 1024))


def main() -> None:
    """Print a line per operation and number of rows."""
    all_rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    for rows in (all_rows // 10, all_rows):
        for name, content in (("a.csv", _text(rows)), ("a.xlsx", _book(rows))):
            for operation in ("read", "merge", "output"):
                process = context.Process(target=_measure, args=(operation, name, content, results))
                process.start()
                seconds, peak_mib = results.get()
                process.join()
                print(f"{operation:6} {rows:>7,} rows of {name:6} {seconds:6.2f} s, peak {peak_mib:4.0f} MiB")


if __name__ == "__main__":
    main()
