"""The canvas of these tests: a Switch, two models, and an Iteration, in a template with the editor's graph."""

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import inspect_canvas
from ragflow_lg.integrations.language_server.canvas_model import CanvasModel
from ragflow_lg.integrations.language_server.canvas_text import CanvasText
from tests.architecture.sources import ROOT

FILE = ROOT / "tests" / "fixtures" / "language_server" / "shop.json"
TEXT = FILE.read_text("utf-8")
CANVAS = CanvasText(TEXT)
CATALOG = load_catalog()


def model_of(text: str) -> CanvasModel:
    """Return what the compiler knows about a canvas."""
    draft = inspect_canvas(text, CATALOG).draft
    assert draft is not None
    return CanvasModel(draft)


MODEL = model_of(TEXT)


def offset_of(needle: str, after: str = "", text: str = TEXT) -> int:
    """Return the offset of a text, after the first occurrence of another one, at a ``|`` in it if there is one."""
    start = text.index(after) + len(after) if after else 0
    return text.index(needle.replace("|", ""), start) + max(needle.find("|"), 0)
