"""Draws a canvas as SVG, PNG, Mermaid or text, without network access and without LangGraph.

May import the plan, drafts of canvases, errors from the base, and the colours of Studio's graphs.
"""

from ragflow_lg.server.drawing.arrangement import Direction
from ragflow_lg.server.drawing.canvas_sketch import sketch_source
from ragflow_lg.server.drawing.sketch import Sketch, sketch_draft, sketch_plan
from ragflow_lg.server.drawing.svg import to_png, to_svg
from ragflow_lg.server.drawing.text_drawing import to_mermaid, to_text_drawing
from ragflow_lg.server.drawing.theme import ThemeName

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
