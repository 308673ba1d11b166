import sys
import time
from typing import Any

import pytest

from ragflow_lg.dsl_compiler.passes import find_joins
from tests.fakes.canvas import canvas, diagnostics_of, switch, text


def test_joins_that_watch_too_many_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[find_joins.__module__], "MAX_WATCHED", 500_000)
    components: dict[str, Any] = {"s": switch(["x0"], ["y0"])}
    for i in range(400):
        to = [f"x{i + 1}", f"y{i + 1}"] if i < 399 else []
        components |= {f"x{i}": text(to), f"y{i}": text(to)}
    (diagnostic,) = diagnostics_of(canvas(components), "document-too-large")
    assert "branches" in diagnostic.message


def test_a_long_cycle_takes_linear_time() -> None:
    components = {f"n{i}": text([f"n{(i + 1) % 4000}"]) for i in range(4000)}
    start_s = time.process_time()
    assert diagnostics_of(canvas(components), "flow-cycle")
    assert time.process_time() - start_s < 10
