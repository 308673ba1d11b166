"""Analyses of a canvas that can run: what may go wrong in some turn.

They read a draft after all passes, and only report. `check_canvas` runs them; a run does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ragflow_lg.dsl_compiler.analysis.canvas import AnalysedCanvas
from ragflow_lg.dsl_compiler.analysis.check_assignment import check_assignment
from ragflow_lg.dsl_compiler.analysis.check_concurrency import check_rounds, check_writes
from ragflow_lg.dsl_compiler.analysis.check_costs import check_costs
from ragflow_lg.dsl_compiler.analysis.check_repetition import check_effects, check_failures, check_loops
from ragflow_lg.dsl_compiler.analysis.check_types import check_types
from ragflow_lg.dsl_compiler.diagnostics import Reporter

__all__ = ["ANALYSES", "AnalysedCanvas", "Analysis"]

Analysis: TypeAlias = Callable[[AnalysedCanvas, Reporter], None]

ANALYSES: tuple[Analysis, ...] = (
    check_assignment,
    check_types,
    check_writes,
    check_rounds,
    check_loops,
    check_effects,
    check_failures,
    check_costs,
)
