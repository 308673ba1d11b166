"""Drawings of a plan, made without a network and without LangGraph."""

from server.drawing.mermaid import to_mermaid
from server.drawing.svg import to_png, to_svg
from server.drawing.text import to_text_drawing

__all__ = ["to_mermaid", "to_png", "to_svg", "to_text_drawing"]
