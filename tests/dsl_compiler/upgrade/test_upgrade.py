"""Old canvases, upgraded and played: the same answers, turns and prompts as in the old engine."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler import check_canvas, compile_canvas, upgrade_source
from ragflow_lg.dsl_compiler.editor_graph import TYPES
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.wire.wire_events import Message
from ragflow_lg.services.chat import ChatRequest
from tests.conftest import FIXTURES
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.corpus import AnyKnowledge, EmptyHttp
from tests.harness.editor_graph import save_params
from tests.harness.rows import each_row

FOLDER = FIXTURES / "canvas" / "legacy"
FILES = sorted(FOLDER.glob("*.json"))


class EmptyKnowledge(AnyKnowledge):
    """A knowledge base that finds nothing."""

    async def search(self, *args: Any, **options: Any) -> Any:
        found = await super().search(*args, **options)
        return type(found)(())


async def converse(
    name: str, turns: list[str], replies: list[Reply], knowledge: FakeKnowledge | None = None, **inputs: Any
) -> tuple[list[str], list[ChatRequest]]:
    """Play turns of an old canvas; return what each showed and what the model was asked."""
    model = ScriptedModel(replies)
    services = fake_services(models=OneModel(model), http=EmptyHttp(), knowledge=knowledge or AnyKnowledge())
    runner = Runner(compile_canvas((FOLDER / name).read_bytes(), CATALOG), services, saver=InMemorySaver())
    shown: list[str] = []
    for query in turns:
        run = runner.start("session", {"query": query, "inputs": {key: {"value": v} for key, v in inputs.items()}})
        shown.append("".join([event.content async for event in run if isinstance(event, Message)]))
        assert run.status == "succeeded", run.error
    return shown, [request for _, request in model.requests]


@each_row("path", FILES)
def test_an_upgraded_canvas_has_no_findings_and_changes_no_more(path: Path) -> None:
    upgraded = upgrade_source(path.read_bytes(), CATALOG)
    plan, diagnostics = check_canvas(json.dumps(upgraded.document), CATALOG)
    assert plan is not None
    assert [str(d) for d in diagnostics if d.severity != "info"] == []
    again = upgrade_source(json.dumps(upgraded.document), CATALOG)
    assert (again.document, again.changes) == (upgraded.document, ())


async def test_a_turn_goes_on_after_the_answer_that_ended_the_last_one() -> None:
    replies = [
        Reply("question", match="bread"),
        Reply("We open at six."),
        Reply("order", match="wants bread"),
        Reply("It comes to Main Street."),
        Reply("question", match="wants bread"),
        Reply("Rye."),
    ]
    turns = ["When do you open?", "Two rolls", "Main Street 1", "Which bread?"]
    shown, requests = await converse("two_answers.json", turns, replies)
    assert shown == [
        "We open at six. Anything else?",
        "Where shall we deliver it?",
        "It comes to Main Street. Anything else?",
        "Rye. Anything else?",
    ]
    assert requests[3].system == "Confirm the delivery to Main Street 1."
    assert requests[3].messages[-1]["content"] == "Main Street 1"


async def test_a_cycle_is_played_until_its_router_leaves_it() -> None:
    replies = [
        Reply("no", match="Documents"),
        Reply("better?", match="complete questions"),
        Reply("yes"),
        Reply("Fern."),
    ]
    shown, requests = await converse("relevant_cycle.json", ["well?"], replies)
    assert shown == ["Fern."]
    assert requests[-1].messages[-1]["content"] == "better?"
    assert "Use this:" in requests[-1].system


async def test_the_last_round_of_a_cycle_leaves_it() -> None:
    rewriting = [Reply("again?", match="complete questions", repeat=True), Reply("no", match="Documents", repeat=True)]
    shown, _ = await converse("relevant_cycle.json", ["well?"], [*rewriting, Reply("I do not know.")])
    assert shown == ["I do not know."]


async def test_an_iteration_splits_its_text_and_joins_its_results() -> None:
    replies = [Reply("root, leaf", match="List the parts of Fern"), Reply("deep", match="root"), Reply("green")]
    shown, _ = await converse("report.json", [""], replies, title="Fern")
    assert shown == ["<h1>Fern</h1> <h2>root</h2> deep\n<h2> leaf</h2> green"]


async def test_a_failed_search_does_not_end_the_turn() -> None:
    shown, requests = await converse("searches.json", ["ferns"], [Reply("fern, moss"), Reply("There is nothing.")])
    assert shown == ["I found nothing."]
    assert requests[1].system == "Web: \nWiki: "


async def test_nothing_found_is_answered_without_a_model() -> None:
    shown, requests = await converse("empty_response.json", ["ferns"], [], EmptyKnowledge())
    assert shown == ["The garden is silent."]
    assert requests == []


async def test_what_was_found_is_answered_by_the_model() -> None:
    shown, requests = await converse("empty_response.json", ["ferns"], [Reply("Green.")])
    assert shown == ["Green."]
    assert "Use this:" in requests[0].system


def test_the_picture_keeps_positions_and_notes_and_places_new_nodes() -> None:
    graph = upgrade_source((FOLDER / "report.json").read_bytes(), CATALOG).document["graph"]
    nodes = {drawn["id"]: drawn for drawn in graph["nodes"]}
    assert nodes["generate:parts"]["position"] == {"x": 200.0, "y": 10.0}
    assert nodes["note"]["data"]["form"] == {"text": "hello"}
    assert nodes["iteration:parts"]["width"] == 500
    assert nodes["generate:part"]["parentId"] == "iteration:parts"
    new = nodes["iteration:partsItems"]["position"]
    assert (abs(new["x"] - 400) < 500, new != nodes["iteration:parts"]["position"]) == (True, True)
    assert {edge["target"] for edge in graph["edges"]} <= set(nodes)


def overlaps(one: dict[str, Any], other: dict[str, Any]) -> bool:
    for axis, side, size in (("x", "width", 200), ("y", "height", 80)):
        first, second = sorted((one, other), key=lambda each: float(each["position"][axis]))
        if second["position"][axis] - first["position"][axis] >= first.get(side, size):
            return False
    return True


@each_row("step", [90.0, 140.0, 300.0])
@each_row("file", FILES)
def test_new_nodes_lie_on_no_others(file: Path, step: float) -> None:
    source = json.loads(file.read_text())
    source = source.get("dsl", source)
    drawn = [
        {"id": id_, "position": {"x": (number % 4) * 300.0, "y": (number // 4) * step}}
        for number, id_ in enumerate(source["components"])
    ]
    note = {"id": "note", "position": {"x": 150, "y": step}, "data": {"label": "Note"}, "width": 300, "height": 200}
    source["graph"] = {"nodes": [*drawn, note], "edges": []}
    nodes = upgrade_source(json.dumps(source), CATALOG).document["graph"]["nodes"]
    new = [each for each in nodes if each["id"] not in source["components"] and each["id"] != "note"]
    assert new
    for each in new:
        beside = [other for other in nodes if other is not each and other.get("parentId") == each.get("parentId")]
        assert [other["id"] for other in beside if overlaps(each, other)] == [], each["id"]


@pytest.mark.parametrize("name", ["RewriteQuestion", "KeywordExtract", "BaiduFanyi"])
def test_a_model_whose_text_other_nodes_read_does_not_cite(name: str) -> None:
    components: dict[str, Any] = {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Answer:A"], "upstream": []},
        "Answer:A": {"obj": {"component_name": "Answer", "params": {}}, "downstream": ["X:a"], "upstream": ["begin"]},
        "X:a": {"obj": {"component_name": name, "params": {"llm_id": "m@T"}}, "downstream": ["G:a"], "upstream": []},
        "G:a": {
            "obj": {"component_name": "Generate", "params": {"llm_id": "m@T", "prompt": "{X:a}"}},
            "downstream": ["Answer:A"],
            "upstream": ["X:a"],
        },
    }
    document = upgrade_source(json.dumps({"components": components}), CATALOG).document
    assert document["components"]["X:a"]["obj"]["params"]["cite"] is False
    assert document["components"]["G:a"]["obj"]["params"].get("cite", True) is True


@pytest.mark.parametrize("name", ["report.json", "two_answers.json"])
def test_ragflows_editor_would_save_the_same_canvas(name: str) -> None:
    document = upgrade_source((FOLDER / name).read_bytes(), CATALOG).document
    edges = document["graph"]["edges"]
    for drawn in document["graph"]["nodes"]:
        if drawn["data"]["label"] != "Note":
            component = document["components"][drawn["id"]]
            assert save_params(drawn, edges) == component["obj"]["params"]
            assert drawn["type"] == TYPES.get(drawn["data"]["label"], "ragNode")
            targets = [edge["target"] for edge in edges if edge["source"] == drawn["id"]]
            assert sorted(targets) == sorted(component["downstream"])


def test_a_wrapper_stays() -> None:
    wrapper = {"title": "Bakery", "dsl": json.loads((FOLDER / "two_answers.json").read_bytes())}
    upgraded = upgrade_source(json.dumps(wrapper), CATALOG).document
    assert upgraded["title"] == "Bakery"
    assert "Answer" not in json.dumps([c["obj"]["component_name"] for c in upgraded["dsl"]["components"].values()])


def test_a_source_that_is_no_canvas_is_an_error() -> None:
    with pytest.raises(CompileError, match="not a JSON object"):
        upgrade_source("[]", CATALOG)


def test_too_many_components_are_an_error_with_a_hint() -> None:
    document = canvas({f"answer:{number}": node("Answer") for number in range(1_001)})
    with pytest.raises(CompileError, match="1,000 components at most"):
        upgrade_source(document, CATALOG)
    assert diagnostics_of(document, "document-too-large")


def test_a_missing_component_in_a_prompt_is_reported() -> None:
    document = canvas(
        {
            "answer:0": node("Answer", {}, ["generate:0"]),
            "generate:0": node(
                "Generate", {"llm_id": "m@P", "prompt": "{Gone:Away@content} mail@example"}, ["answer:0"]
            ),
        }
    )
    (change,) = [c for c in upgrade_source(document, CATALOG).changes if not c.name]
    assert (change.id, change.is_difference) == ("Gone:Away", True)


NAMES = st.sampled_from(
    ["Answer", "Categorize", "Concentrator", "Generate", "Iteration", "Message", "Relevant", "Retrieval", "Switch"]
)
TEXTS = st.sampled_from(["", "{a}", "{b@content}", "{input}", "{begin@x}", "{{", "x" * 50])


@st.composite
def old_canvases(draw: st.DrawFn) -> dict[str, Any]:
    """Return an old canvas with any edges, routes and references, sensible or not."""
    ids = [f"n:{number}" for number in range(draw(st.integers(1, 5)))]
    target = st.sampled_from([*ids, "begin", "gone"])
    components: dict[str, Any] = {"begin": node("Begin", {}, draw(st.lists(target, max_size=3)))}
    for id_ in ids:
        params: dict[str, Any] = {
            "llm_id": "m@P",
            "prompt": draw(TEXTS),
            "messages": ["hi"],
            "yes": draw(target),
            "no": draw(target),
            "end_cpn_id": draw(target),
            "conditions": [{"items": [{"cpn_id": draw(target), "operator": "empty"}], "to": draw(target)}],
            "category_description": {"one": {"to": draw(target)}, "two": {"to": [draw(target)], "examples": ["e"]}},
            "query": draw(st.sampled_from([[], [{"component_id": ids[0]}], [{"value": "v"}], None])),
        }
        parent = draw(st.sampled_from(["", *ids]))
        components[id_] = node(draw(NAMES), params, draw(st.lists(target, max_size=3)), parent_id=parent)
    components["answer"] = node("Answer", {}, draw(st.lists(target, max_size=2)))
    return {"components": components, "graph": {"nodes": [{"id": "begin", "position": {"x": "a"}}], "edges": []}}


def test_a_position_that_is_no_number_of_pixels_is_the_origin() -> None:
    far: dict[str, Any] = {"x": 10**400, "y": -(10**400)}
    document = {
        "components": {"begin": node("Begin", {}, ["answer"]), "answer": node("Answer", {}, [])},
        "graph": {"nodes": [{"id": "begin", "position": far}], "edges": []},
    }
    nodes = upgrade_source(document, CATALOG).document["graph"]["nodes"]
    assert next(each["position"] for each in nodes if each["id"] == "begin") == {"x": 0.0, "y": 0.0}


@settings(max_examples=25)
@given(old_canvases())
def test_any_old_canvas_is_upgraded_or_refused_and_only_once(document: dict[str, Any]) -> None:
    upgraded = upgrade_source(document, CATALOG)
    check_canvas(document, CATALOG)
    check_canvas(upgraded.document, CATALOG)
    assert upgrade_source(upgraded.document, CATALOG).changes == ()


def _drawn(components: dict[str, Any]) -> dict[str, Any]:
    """Return the components as a graph only, whose edges hold the routes."""
    nodes: list[Any] = []
    edges: list[Any] = []
    for id_, component in components.items():
        name, form = component["obj"]["component_name"], dict(component["obj"]["params"])
        routes: dict[str, str] = {}
        if name == "Relevant":
            routes = {key: form.pop(key) for key in ("yes", "no")}
        elif name == "Categorize":
            routes = {key: entry["to"] for key, entry in form["category_description"].items()}
            form["category_description"] = {key: {"description": key} for key in routes}
        elif name == "Switch":
            routes = {"Case 1": form["conditions"][0]["to"], "end_cpn_ids": form.pop("end_cpn_id")}
            form["conditions"] = [{**form["conditions"][0], "to": ""}]
        handles = list(routes.items()) or [("start", target) for target in component["downstream"]]
        nodes.append({"id": id_, "data": {"label": name, "form": form, "name": id_}})
        edges += [{"source": id_, "target": target, "sourceHandle": handle} for handle, target in handles]
    return {"components": {}, "graph": {"nodes": nodes, "edges": edges}}


def test_an_old_canvas_that_is_only_a_graph_is_upgraded_as_one_with_components() -> None:
    case = {"items": [{"cpn_id": "generate:0", "operator": "contains", "value": "x"}], "to": "generate:1"}
    kinds = {"a": {"description": "a", "to": "switch:0"}, "b": {"description": "b", "to": "answer:0"}}
    components = {
        "begin": node("Begin", {"prologue": "Hi"}, ["answer:0"]),
        "answer:0": node("Answer", {}, ["relevant:0"]),
        "relevant:0": node("Relevant", {"yes": "generate:0", "no": "categorize:0"}),
        "generate:0": node("Generate", {"prompt": "{input}"}, ["answer:0"]),
        "categorize:0": node("Categorize", {"category_description": kinds}),
        "switch:0": node("Switch", {"conditions": [case], "end_cpn_id": "answer:0"}),
        "generate:1": node("Generate", {"prompt": "Well."}, ["answer:0"]),
    }
    expected = upgrade_source({"components": components}, CATALOG)
    upgraded = upgrade_source(_drawn(components), CATALOG)
    assert upgraded.changes == expected.changes
    assert upgraded.document["components"] == expected.document["components"]
    pointers = {d.pointer for d in diagnostics_of(_drawn(components), "legacy-component")}
    assert "/graph/nodes/1" in pointers
    assert not any(pointer.startswith("/components/") for pointer in pointers)
