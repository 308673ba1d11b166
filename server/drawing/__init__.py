"""Drawings of a plan, made without a network and without LangGraph."""

from ragflow_lg.server.drawing.mermaid import to_mermaid
from ragflow_lg.server.drawing.svg import to_png, to_svg
from ragflow_lg.server.drawing.text_drawing import to_text_drawing

__all__ = ["to_mermaid", "to_png", "to_svg", "to_text_drawing"]
