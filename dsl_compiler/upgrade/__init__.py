"""Upgrade a canvas from before RAGFlow 0.20 to DSL v1 of today.

`upgrade_canvas` is the face. It reads the old components (`old_canvas`), turns Answer into the ends of turns (`turns`),
replaces each component (`replacements`), and writes the new document (`new_canvas`). It imports nothing of the compiler
but its shapes.
"""

from __future__ import annotations

from ragflow_lg.dsl_compiler.upgrade.old_canvas import is_old_canvas
from ragflow_lg.dsl_compiler.upgrade.upgrade import MAX_COMPONENTS, Change, Upgrade, count_components, upgrade_canvas

__all__ = ["MAX_COMPONENTS", "Change", "Upgrade", "count_components", "is_old_canvas", "upgrade_canvas"]
