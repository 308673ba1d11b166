"""Draws a plan as SVG, PNG, Mermaid or text, without network access and without LangGraph.

May import the plan, ids and errors from the base, and the colours of Studio's graphs.
"""

from ragflow_lg.server.drawing.svg import to_png, to_svg
from ragflow_lg.server.drawing.text_drawing import to_mermaid, to_text_drawing

__all__ = ["to_mermaid", "to_png", "to_svg", "to_text_drawing"]
