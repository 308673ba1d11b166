import xml.etree.ElementTree as ElementTree

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.drawing import to_png, to_svg
from tests.fakes.canvas import canvas, text
from tests.fakes.canvas import plan_of as canvas_plan
from tests.server.drawing.plans import plan_of, plan_with_region, support_plan

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_titles_types_and_labels_are_written() -> None:
    labels = texts(to_svg(support_plan()))
    assert {"Start", "客服台", "Categorize", "Switch", "Order, Refund", "Case 1", "Else", "on error"} <= set(labels)


def test_only_conditional_edges_are_dashed() -> None:
    paths = [p for p in ElementTree.fromstring(to_svg(support_plan())).iter(f"{SVG}path") if p.get("marker-end")]
    assert [bool(p.get("stroke-dasharray")) for p in paths].count(False) == 2
    assert len(paths) == 7


def test_hostile_titles_are_only_text() -> None:
    titles = {"a": '<script>&"', "b": "\x00\x1b[31m\ud800", "c": "\u202eevil", "d": "x" * 5000}
    svg = to_svg(plan_of([("begin", "a"), ("a", "b"), ("b", "c"), ("c", "d")], titles))
    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg.encode()).iter()}
    assert tags <= {"svg", "title", "defs", "marker", "path", "rect", "g", "text"}
    assert '<script>&"' in texts(svg)
    assert "\u202e" not in svg
    assert "x" * 100 not in svg


def test_a_long_chinese_title_is_cut_to_its_box() -> None:
    labels = texts(to_svg(plan_of([("begin", "a")], {"a": "知识库检索" * 10})))
    (title,) = (text for text in labels if "知识库" in text)
    assert title.endswith("…")
    assert len(title) <= 14


def test_a_png_shows_the_titles() -> None:
    try:
        plain, titled = to_png(plan_of([("begin", "a")])), to_png(plan_of([("begin", "a")], {"a": "Another title"}))
    except SettingsError as error:
        pytest.skip(str(error))
    assert plain.startswith(b"\x89PNG")
    assert plain != titled


def test_a_very_wide_drawing_is_scaled_down() -> None:
    chain = [("begin", "m0"), *((f"m{i}", f"m{i + 1}") for i in range(399))]
    try:
        png = to_png(plan_of(chain))
    except SettingsError as error:
        pytest.skip(str(error))
    width, height = (int.from_bytes(png[at : at + 4]) for at in (16, 20))
    assert width * height <= 13_000_000
    assert width > 10_000


def test_a_region_is_a_box_around_its_body() -> None:
    rects = [
        r for r in ElementTree.fromstring(to_svg(plan_with_region())).iter(f"{SVG}rect") if r.get("stroke-dasharray")
    ]
    (box,) = rects
    assert float(box.get("width", 0)) > 3 * 216


def test_a_png_with_too_many_edges_is_refused() -> None:
    count = 60
    components = {f"a{i}": text([f"b{j}" for j in range(count)]) for i in range(count)}
    components |= {f"b{i}": text() for i in range(count)}
    with pytest.raises(SettingsError, match="Use SVG"):
        to_png(canvas_plan(canvas(components, [f"a{i}" for i in range(count)])))
