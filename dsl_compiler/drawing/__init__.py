"""Draws a canvas as SVG, PNG, Mermaid or text, without network access and without LangGraph.

May import `dsl_compiler.compiler` and what is below it, the plan, and errors from the base.
"""

from ragflow_lg.dsl_compiler.drawing.arrangement import Direction
from ragflow_lg.dsl_compiler.drawing.sketch import Sketch, sketch_draft, sketch_plan, sketch_source
from ragflow_lg.dsl_compiler.drawing.svg import ThemeName, to_png, to_svg
from ragflow_lg.dsl_compiler.drawing.text_drawing import to_mermaid, to_text_drawing

__all__ = [
    "Direction",
    "Sketch",
    "ThemeName",
    "sketch_draft",
    "sketch_plan",
    "sketch_source",
    "to_mermaid",
    "to_png",
    "to_svg",
    "to_text_drawing",
]
