import re
import xml.etree.ElementTree as ElementTree
from operator import mul

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import find_cjk_font
from ragflow_lg.dsl_compiler.deployment import NoDeployment
from ragflow_lg.dsl_compiler.drawing import sketch_plan, sketch_source, to_mermaid, to_png, to_svg, to_text_drawing
from ragflow_lg.dsl_compiler.drawing.svg import THEMES, Theme
from ragflow_lg.dsl_compiler.drawing.text_drawing import MAX_LINES
from tests.dsl_compiler.drawing.plans import DRAWINGS, sketch_of, sketch_with_region, support_sketch
from tests.fakes.canvas import CATALOG, canvas, node, plan_of, text

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_titles_types_and_labels_are_written() -> None:
    labels = texts(to_svg(support_sketch()))
    assert {"Start", "客服台", "Categorize", "Switch", "Order, Refund", "Case 1", "Else", "on error"} <= set(labels)


def test_only_conditional_edges_are_dashed() -> None:
    paths = [p for p in ElementTree.fromstring(to_svg(support_sketch())).iter(f"{SVG}path") if p.get("marker-end")]
    assert [bool(p.get("stroke-dasharray")) for p in paths].count(False) == 2
    assert len(paths) == 7


def test_nodes_have_the_icon_of_their_kind_and_nothing_is_fetched() -> None:
    svg = to_svg(sketch_with_region())
    icons = {group.get("data-icon"): group[1].get("d") for group in ElementTree.fromstring(svg).iter(f"{SVG}g")}
    icons.pop(None)
    assert {"entry", "message"} <= icons.keys()
    assert len(set(icons.values())) == len(icons)
    assert "href" not in svg
    assert set(re.findall(r"url\((.)", svg)) == {"#"}


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_texts_can_be_read_on_every_ground(theme: Theme) -> None:
    def lightness(colour: str) -> float:
        shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.05 + sum(map(mul, linear, (0.2126, 0.7152, 0.0722)))

    grounds = sorted(map(lightness, (theme.background, theme.node, theme.container)))
    for colour in map(lightness, (theme.ink, theme.label)):
        assert min(max(colour, ground) / min(colour, ground) for ground in grounds) >= 4.5


def test_hostile_titles_are_only_text() -> None:
    titles = {"a": '<script>&"', "b": "\x00\x1b[31m\ud800", "c": "\u202eevil", "d": "x" * 5000}
    svg = to_svg(sketch_of([("begin", "a"), ("a", "b"), ("b", "c"), ("c", "d")], titles))
    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg.encode()).iter()}
    assert tags <= {"svg", "title", "defs", "marker", "path", "rect", "g", "text"}
    assert '<script>&"' in texts(svg)
    assert "\u202e" not in svg
    assert "x" * 100 not in svg


def test_ids_with_line_breaks_and_tabs_are_read_as_they_are() -> None:
    odd = "a\n\t\r\"'<&"
    agent = node("Agent", {"llm_id": "m@P", "tools": [{"component_name": "PubMed", "name": "T\n1"}]}, [odd])
    document = canvas({"agent": agent, odd: text(["end"]), "end": text()}, ["agent"])
    root = ElementTree.fromstring(to_svg(sketch_plan(plan_of(document))))
    values = {key: {e.get(f"data-{key}") for e in root.iter()} for key in ("node", "from", "to", "tool")}
    assert [key for key in ("node", "from", "to") if odd not in values[key]] == []
    assert values["tool"] == {None, "T\n1"}


def test_a_long_chinese_title_is_cut_to_two_lines() -> None:
    labels = texts(to_svg(sketch_of([("begin", "a")], {"a": "知识库检索" * 10})))
    first, title = (text for text in labels if "知识库" in text)
    assert title.endswith("…")
    assert not first.endswith("…")
    assert len(title) <= 20


def test_a_png_shows_the_titles() -> None:
    try:
        plain, titled = to_png(sketch_of([("begin", "a")])), to_png(sketch_of([("begin", "a")], {"a": "Another title"}))
    except SettingsError as error:
        pytest.skip(str(error))
    assert plain.startswith(b"\x89PNG")
    assert plain != titled


def test_a_very_wide_drawing_is_scaled_down() -> None:
    chain = [("begin", "m0"), *((f"m{i}", f"m{i + 1}") for i in range(199))]
    try:
        png = to_png(sketch_of(chain))
    except SettingsError as error:
        pytest.skip(str(error))
    width, height = (int.from_bytes(png[at : at + 4]) for at in (16, 20))
    assert width * height <= 13_000_000
    assert width > 5_000


def test_a_loop_is_a_box_with_its_title_and_its_body() -> None:
    root = ElementTree.fromstring(to_svg(sketch_with_region()))
    (box,) = [r for r in root.iter(f"{SVG}rect") if r.get("stroke-dasharray")]
    assert float(box.get("width", 0)) > 3 * 140
    assert "loop" in [element.text for element in root.iter(f"{SVG}title")]


def test_a_canvas_that_cannot_run_is_drawn_with_its_errors() -> None:
    document = canvas({"a": node("Warp", {}, ["b"]), "b": text(parent_id="c"), "c": text(parent_id="b")}, ["a", "c"])
    sketch, diagnostics = sketch_source(document, CATALOG, NoDeployment())
    assert sketch is not None
    assert any(d.code == "component-unknown" for d in diagnostics)
    assert {entry.id: entry.mark for entry in sketch.nodes}["a"] == "error"
    assert "Warp" in texts(to_svg(sketch))
    assert sketch_source({"components": {}}, CATALOG, NoDeployment())[0] is None


def test_the_tools_of_agents_are_listed() -> None:
    inner = {
        "component_name": "Agent",
        "name": "Reader",
        "params": {"llm_id": "m@P", "tools": [{"component_name": "ArXiv"}]},
    }
    agent = {"llm_id": "m@P", "tools": [inner, *({"component_name": "PubMed", "name": f"T{i}"} for i in range(12))]}
    labels = texts(to_svg(sketch_plan(plan_of(canvas({"a": node("Agent", agent)})))))
    assert labels[labels.index("Reader") : labels.index("Reader") + 3] == ["Reader", "ArXiv", "T0"]
    assert "and 2 more" in labels


def test_the_flow_leads_right_or_down_and_nodes_do_not_overlap() -> None:
    wide, high = (ElementTree.fromstring(to_svg(sketch_with_region(), direction=d)) for d in ("right", "down"))
    assert float(wide.get("width", 0)) > float(high.get("width", 0))
    assert float(wide.get("height", 0)) < float(high.get("height", 0))


def test_nodes_stand_where_the_editor_shows_them() -> None:
    places = {"begin": (0, 0), "Loop:A": (400, -50), "LoopItem:B": (60, 80), "Message:C": (300, 90)}
    document = canvas(
        {
            "Loop:A": node("Loop", {}),
            "LoopItem:B": node("LoopItem", {}, ["Message:C"], parent_id="Loop:A"),
            "Message:C": node("Message", {"content": ["x"]}, parent_id="Loop:A"),
        },
        graph={"nodes": [{"id": i, "position": {"x": x, "y": y}} for i, (x, y) in places.items()], "edges": []},
    )
    sketch, _ = sketch_source(document, CATALOG, NoDeployment())
    assert sketch is not None
    rects = {
        group[0].text: (float(group[1].get("x", 0)), float(group[1].get("y", 0)))
        for group in ElementTree.fromstring(to_svg(sketch, as_in_editor=True)).iter(f"{SVG}g")
    }
    x, y = rects["begin"]
    assert rects["Message:C"] == (x + 700, y + 40)
    del places["Message:C"]
    document["graph"]["nodes"].pop()
    sketch, _ = sketch_source(document, CATALOG, NoDeployment())
    assert sketch is not None
    with pytest.raises(SettingsError, match="no position for 'Message:C'"):
        to_svg(sketch, as_in_editor=True)


def test_chinese_japanese_and_korean_need_no_system_font() -> None:
    if find_cjk_font() is None:
        pytest.skip("The extra cjk is not installed.")
    pictures = {to_png(sketch_of([("begin", "a")], {"a": title})) for title in ("検索結果", "检索结果", "검색 결과")}
    assert len(pictures) == 3


def test_a_png_with_too_many_edges_is_refused() -> None:
    count = 60
    components = {f"a{i}": text([f"b{j}" for j in range(count)]) for i in range(count)}
    components |= {f"b{i}": text() for i in range(count)}
    with pytest.raises(SettingsError, match="Use SVG"):
        to_png(sketch_plan(plan_of(canvas(components, [f"a{i}" for i in range(count)]))))


def test_the_tree_of_a_canvas() -> None:
    assert to_text_drawing(support_sketch()) == (DRAWINGS / "support.ascii.txt").read_text(encoding="utf-8")


def test_titles_do_not_control_the_terminal() -> None:
    tree = to_text_drawing(sketch_of([("begin", "a")], {"a": "\x1b]0;owned\x07\x9b31m\u202e"}))
    assert tree.replace("\n", "").isprintable()


def test_a_node_with_two_predecessors_is_drawn_once() -> None:
    tree = to_text_drawing(sketch_of([("begin", "a"), ("begin", "b"), ("a", "c"), ("b", "c"), ("c", "d")]))
    assert tree.count("c  (Message)") == 1
    assert tree.count("↪ c") == 1
    assert tree.count("d  (Message)") == 1


def test_a_drawing_has_a_maximum_length() -> None:
    edges = [("begin", f"a{i}") for i in range(50)] + [(f"a{i}", f"b{j}") for i in range(50) for j in range(50)]
    lines = to_text_drawing(sketch_of(edges)).splitlines()
    assert len(lines) == MAX_LINES + 1
    assert lines[-1].startswith("…")


def test_the_flowchart_of_a_canvas() -> None:
    assert to_mermaid(support_sketch()) == (DRAWINGS / "support.mermaid.txt").read_text(encoding="utf-8")


def test_a_title_cannot_close_its_quotes() -> None:
    flowchart = to_mermaid(sketch_of([("begin", "a")], {"a": '"]\n click n0 "javascript:x" %%{init}%%'}))
    assert "click n0 #34;" in flowchart
    assert len(flowchart.splitlines()) == 4


def test_a_region_is_a_subgraph_of_its_body() -> None:
    flowchart = to_mermaid(sketch_with_region())
    body = flowchart[flowchart.index("subgraph") : flowchart.index("    end\n")]
    assert [name in body for name in ("item", "first", "second", "begin")] == [True, True, True, False]
