"""How long writing documents takes: ``python -m benchmarks.documents [PARAGRAPHS]``.

Writes the same text, with tables, code and formulas, as PDF and DOCX in a warm worker process.
"""

import asyncio
import statistics
import sys
import time

from ragflow_lg.adapters.reports.report_settings import ReportSettings
from ragflow_lg.adapters.reports.worker_reports import WorkerReports
from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.services.reports import Layout, ReportFormat, ReportRequest

ROUNDS = 5
LAYOUT = Layout("Header", "Footer", "DRAFT", "Generated: 2026-01-01 00:00:00", True, 12)
SECTION = """## Section {n}

A paragraph with **strong** text, `code`, a [link](https://example.org) and the formula $\\frac{{a}}{{b}}$. It has a
second sentence, so that it takes several lines on the page, as paragraphs of reports do.

| quarter | revenue |
|:--------|--------:|
| Q1      | {n}.4   |
| Q2      | {n}.9   |

```python
def section() -> int:
    return {n}
```
"""
FORMATS: tuple[ReportFormat, ...] = ("pdf", "docx", "html")


async def no_image(address: str) -> bytes | None:
    return None


async def main(sections: int) -> None:
    text = "# Report\n\n" + "\n".join(SECTION.format(n=number) for number in range(sections))
    pool = WorkerPool(1)
    reports = WorkerReports(ReportSettings(), pool)
    try:
        for format_ in FORMATS:
            request = ReportRequest(text, format_, LAYOUT)
            times: list[float] = []
            size = 0
            for _ in range(ROUNDS + 1):
                start_s = time.perf_counter()
                size = len((await reports.write(request, no_image)).content)
                times.append(1000 * (time.perf_counter() - start_s))
            middle = statistics.median(times[1:])
            print(f"{format_}: {len(text):,} characters, {size:,} bytes", end="; ")
            print(f"first {times[0]:.0f} ms, then {middle:.0f} ms (median)")
    finally:
        await pool.aclose()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
