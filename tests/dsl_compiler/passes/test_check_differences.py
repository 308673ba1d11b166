import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.ids import NodeId
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl.compatibility import OPTIONS, Compatibility
from ragflow_lg.dsl_compiler import check_canvas
from tests.fakes.canvas import canvas, node
from tests.fakes.policies import Canvases, entry
from tests.harness.rows import each_row

SCHEMA = {"structured": {"type": "object", "properties": {"a": {"type": "string"}}}}
FIELDS = {"size": {"name": "Size", "type": "integer"}, "colour": {"type": "options", "options": ["red"]}}
LOOP = {
    "lp": node("Loop", {"maximum_loop_count": 2, "loop_termination_condition": []}, ["m"]),
    "li": {**node("LoopItem", {}, ["t"]), "parent_id": "lp"},
    "t": {**node("StringTransform", {"method": "merge", "script": "x"}), "parent_id": "lp"},
    "m": node("Message", {"content": ["Done"]}),
}


def message(content: str) -> dict[str, Any]:
    return node("Message", {"content": [content]})


def llm(**params: Any) -> dict[str, Any]:
    return node("LLM", params, ["m"])


CANVASES: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "differs-jinja-values": ({"m": message('{% if {sys.conversation_turns} == "1" %}x{% endif %}')}, "m", "content/0"),
    "differs-loop-no-condition": (LOOP, "lp", "loop_termination_condition"),
    "differs-structured-checks": ({"g": llm(outputs=SCHEMA), "m": message("x")}, "g", "outputs/structured"),
    "differs-fillup-checked": ({"f": node("UserFillUp", {"inputs": FIELDS}, ["m"]), "m": message("x")}, "f", "inputs"),
    "differs-unread-model": ({"g": llm(), "m": message("Done")}, "g", ""),
    "differs-retry-after-text": ({"g": llm(max_retries=2), "m": message("{g@content}")}, "g", "max_retries"),
}
"""For each code: a canvas, the node, and where in its params."""


def differences(components: dict[str, Any], compat: Any = None, **deployment: Any) -> list[Diagnostic]:
    document = canvas(components, [next(iter(components))])
    if compat is not None:
        document["compat"] = compat
    _, diagnostics = check_canvas(document, load_catalog(), Canvases(**deployment))
    return [d for d in diagnostics if d.code.startswith(("differs-", "compat-"))]


@each_row("code", CANVASES)
def test_a_difference_is_reported_with_its_row_and_its_option(code: str) -> None:
    components, node_id, path = CANVASES[code]
    (diagnostic,) = differences(components)
    assert (diagnostic.code, diagnostic.node) == (code, node_id)
    assert diagnostic.pointer == f"/components/{node_id}/obj/params" + (f"/{path}" if path else "")
    assert code.removeprefix("differs-") in diagnostic.hint
    assert f"compat.{OPTIONS[code]}" in diagnostic.hint


@each_row("code", CANVASES)
def test_nothing_is_reported_once_ragflows_behaviour_applies(code: str) -> None:
    components, _, _ = CANVASES[code]
    option = OPTIONS[code]
    assert differences(components, "ragflow") == []
    assert differences(components, {option: True}) == []
    assert differences(components, compatibility=Compatibility().override({option: True})) == []
    others = Compatibility().override({"all": True, option: False})
    assert [d.code for d in differences(components, compatibility=others)] == [code]


@each_row(
    "components",
    [
        {"m": message('{% if {sys.query} == "a" %}x{% endif %}')},  # the query is text
        {"g": llm(), "m": message('{% if {g@content} == "a" %}x{% endif %}')},
        {"g": llm(), "m": message("{% if {g@structured.a} %}x{% endif %}{g@content}")},  # perhaps text
        {"g": llm(outputs=SCHEMA, max_retries=1), "m": message("x")},
        {"g": llm(outputs=SCHEMA, exception_method="comment", exception_default_value="x"), "m": message("x")},
        {"f": node("UserFillUp", {"inputs": {"name": {"type": "line"}}}, ["m"]), "m": message("x")},
        {"g": llm(), "m": message("{g@content}")},
        {"g": node("LLM", {}, ["t"]), "t": node("StringTransform", {}, ["m"]), "m": message("x")},
        {"g": llm(max_retries=2), "m": message("{% if 1 %}{g@content}{% endif %}")},  # not streamed
    ],
)
def test_other_canvases_have_no_differences(components: dict[str, Any]) -> None:
    assert differences(components) == []


def test_the_answers_of_an_agents_tools_are_checked_too() -> None:
    tools = [entry("Agent", outputs=SCHEMA)]
    (diagnostic,) = differences({"a": node("Agent", {"tools": tools}, ["m"]), "m": message("{a@content}")})
    assert diagnostic.pointer == "/components/a/obj/params/tools/0/params/outputs/structured"


def test_retries_are_reported_once_for_all_models() -> None:
    components = {"g": node("LLM", {"max_retries": 1}, ["h", "m"]), "h": llm(max_retries=1)}
    (diagnostic,) = differences({**components, "m": message("{g@content}{h@content}")})
    assert "and 1 other" in diagnostic.message


def test_a_canvas_takes_precedence_over_its_deployment() -> None:
    components, _, _ = CANVASES["differs-unread-model"]
    everything = Compatibility().override({"all": True})
    document = {**canvas(components, ["g"]), "compat": {"skip_unread_models": False}}
    plan, _ = check_canvas(document, load_catalog(), Canvases(compatibility=everything))
    assert plan is not None
    assert plan.compatibility == everything.override({"skip_unread_models": False})
    assert not plan.nodes[NodeId("g")].is_skipped


@each_row(
    ("compat", "pointer", "hint"),
    [
        ("ragflw", "/compat", 'The behaviours are jinja_text, unchecked_answers, .*; "all" stands for all of them'),
        ({"jinja_txt": True}, "/compat/jinja_txt", "Did you mean 'jinja_text'?"),
        ({"a/b": True}, "/compat/a~1b", "The behaviours are jinja_text, "),
        ({"": True}, "/compat", "The behaviours are jinja_text, "),
        ({"jinja_text": 1}, "/compat/jinja_text", "Write true or false, without quotes."),
        ({"ragflow": True}, "/compat/ragflow", 'Write "1.0", in quotes. "all": true stands for all behaviours.'),
    ],
)
def test_an_unknown_behaviour_refuses_the_canvas(compat: Any, pointer: str, hint: str) -> None:
    (diagnostic,) = differences({"m": message("Hi")}, compat)
    assert (diagnostic.code, diagnostic.severity, diagnostic.pointer) == ("compat-invalid", "error", pointer)
    assert re.match(hint, diagnostic.hint)
    file = {"compat": compat, "dsl": canvas({"m": message("Hi")})}
    (beside,) = [d for d in check_canvas(file, load_catalog())[1] if d.code == "compat-invalid"]
    assert beside.pointer == pointer


def test_only_chosen_behaviours_change_the_hash_of_a_canvas() -> None:
    document = canvas({"m": message("Hi")})
    choices: list[dict[str, Any]] = [{}, {"compat": {}}, {"compat": "ragflow"}]
    plans = [check_canvas({**document, **more}, load_catalog())[0] for more in choices]
    hashes = [plan.canvas_hash for plan in plans if plan is not None]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("place", ["file", "dsl"])
def test_a_template_may_choose_at_the_top_of_its_file(place: str) -> None:
    document = canvas({"m": message('{% if {sys.conversation_turns} == "1" %}x{% endif %}')})
    choice = {"compat": {"jinja_text": True}}
    wrapper = {"title": "T", "dsl": document, **choice} if place == "file" else {"dsl": {**document, **choice}}
    plan, diagnostics = check_canvas(json.dumps(wrapper), load_catalog())
    assert plan is not None
    assert (plan.compatibility.jinja_text, diagnostics) == (True, ())
    plan, diagnostics = check_canvas(json.dumps({**wrapper, "compat": "no", "dsl": document}), load_catalog())
    assert plan is None
    assert "compat-invalid" in [diagnostic.code for diagnostic in diagnostics]
