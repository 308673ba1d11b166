from ragflow_lg.integrations.language_server.hover import code, escape, find_hover
from tests.harness.rows import each_row
from tests.integrations.language_server.shop import CANVAS, MODEL, TEXT, offset_of


def hover(needle: str, after: str = "") -> str:
    """Return the text about a place, which must be marked."""
    found = find_hover(CANVAS, MODEL, offset_of(needle, after))
    assert found is not None
    assert found.place.start <= offset_of(needle, after) <= found.place.end
    return found.markdown


def test_a_component_is_described_with_its_parameters_and_outputs() -> None:
    for text in (hover('"LLM:|Order": {'), hover("{LLM:|Order@structured.total"), hover('"target": "LLM:|Order"')):
        assert text.startswith("**Read the order 🎉** · `LLM:Order`\n\nLLM: Ask a chat model.")
        assert "\n- `sys_prompt`: text with references\n" in text
        assert "\n- `structured`: object" in text
    assert "**Other\\_answer**" in hover('"LLM:|Other": {')


@each_row(
    ("needle", "first"),
    [
        ("{LLM:Order@structure|d.total}", "`LLM:Order@structured.total`: number"),
        ("{Iteration:Lines@la|bels}", "`Iteration:Lines@labels`: list of text"),
        ("{IterationItem:Lines@it|em}", "`IterationItem:Lines@item`: text"),
        ("{begin@ci|ty}", "`begin@city`: text"),
        ("{env.sh|op}", "`env.shop`: text"),
        ("{sys.qu|ery}", "`sys.query`: text"),
    ],
)
def test_a_reference_shows_its_type_and_what_it_points_to(needle: str, first: str) -> None:
    text = hover(needle)
    assert text.partition("\n")[0] == first
    assert "env" not in needle or 'A variable of the canvas, at first `"Lamps"`.' in text
    assert "LLM" not in needle or "An output of **Read the order 🎉** (LLM: Ask a chat model.)" in text


def test_a_parameter_is_explained() -> None:
    text = hover('"exception_|goto"')
    assert text.startswith("`exception_goto`: list of text")
    assert "The ids of the components that run after an error." in text
    assert hover('"logical_|operator"').startswith("`logical_operator`: text")


def test_other_places_say_nothing() -> None:
    for needle in ('"prol|gue"', '"demo|"', '"upstrea|m"', '"title": "Sh|op"'):
        assert find_hover(CANVAS, MODEL, offset_of(needle)) is None
    assert find_hover(CANVAS, MODEL, len(TEXT)) is None


def test_texts_of_canvases_stay_texts() -> None:
    assert escape("<b>[x](javascript:1)\n# y*") == "\\<b\\>\\[x\\]\\(javascript:1\\) \\# y\\*"
    assert code("a`b\n`") == "`aʼb ʼ`"
