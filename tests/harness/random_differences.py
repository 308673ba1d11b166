"""What makes the results of a random canvas differ from RAGFlow's: one part for each row of ``docs/fidelity.md``.

A part is added at the end of a random canvas. Without it the results are the same, so it is the reason of a difference.
"""

from tests.harness import node_differences, region_differences
from tests.harness.difference_parts import DIFFERENCES
from tests.harness.random_canvases import RandomCanvas

__all__ = ["DIFFERENCES", "node_differences", "region_differences", "with_difference"]


def with_difference(seed: int, row: str) -> RandomCanvas:
    """Return a random canvas that ends with the part of a row."""
    canvas = RandomCanvas(seed)
    first, _ = DIFFERENCES[row](canvas)
    canvas.link(canvas.ends, first)
    if canvas.has_form and row != "fillup-new-turn":
        del canvas.queries[1:]
    return canvas
