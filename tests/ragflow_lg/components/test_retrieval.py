from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.component.spec import AnySpec
from ragflow_lg.components.retrieval import MAX_QUESTION_CHARS, retrieval
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from ragflow_lg.services.memories import MemorySearch
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.memories import FakeMemories
from tests.fakes.prompts import read_prompt
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row, read_rows

DS1 = {"dataset_ids": ["ds1"]}
SEARCH = "search_my_dateset_0"
METAS = {"year": {"2023": ["doc-guide.pdf"], "2024": ["doc-tea.md"]}, "crop": {"Tea": ["doc-tea.md"]}}


async def search(
    params: dict[str, Any],
    knowledge: FakeKnowledge | None = None,
    *replies: Reply,
    query: Any = "rice",
    spec: AnySpec = retrieval,
    **more: Any,
) -> tuple[Result, FakeKnowledge, ScriptedModel]:
    knowledge, model = knowledge or FakeKnowledge(), ScriptedModel(list(replies))
    services = fake_services(models=OneModel(model), knowledge=knowledge)
    entries = {"sys.query": query, "sys.user_id": "u1", **more.pop("globals", {})}
    params = {"query": "{sys.query}", **params}
    return await run_component(spec, params, services=services, globals=entries, **more), knowledge, model


DIFFERENT = FakeKnowledge([Dataset("ds1", "A", "one"), Dataset("ds2", "B", "two")])


async def test_every_parameter_reaches_the_search() -> None:
    params = {"similarity_threshold": 0.5, "keywords_similarity_weight": 0.7, "top_n": 3, "top_k": 64}
    more = {"rerank_id": "r@Test", "toc_enhance": True, "use_kg": True}
    result, knowledge, _ = await search({**DS1, **params, **more})
    datasets = (Dataset("ds1", "Manuals", "embed@Test"),)
    assert knowledge.searches == [DatasetSearch("rice", datasets, None, 3, 64, 0.5, 0.7, "r@Test", True, True)]
    assert result.outputs["formalized_content"].startswith("\nID: 61\n├── Title: guide.pdf\n└── Content:\nRice needs")
    assert [row["chunk_id"] for row in result.outputs["json"]] == ["c-rice", "c-tea"]


@each_row(("params", "value", "ids"), read_rows("dataset_forms"))
async def test_datasets_are_accepted_in_several_forms(params: dict[str, Any], value: Any, ids: list[str]) -> None:
    outputs = {"form": {"knowledge base": value}}
    _, knowledge, _ = await search(params, outputs=outputs, globals={"env.set": "ds2"})
    assert [dataset.id for dataset in knowledge.searches[0].datasets] == ids


@each_row(("params", "value", "problem"), read_rows("dataset_errors"))
async def test_invalid_datasets_are_an_error(params: dict[str, Any], value: Any, problem: str) -> None:
    result, knowledge, _ = await search(params, outputs={"form": {"set": value}})
    assert problem in str(result.error)
    assert (result.outputs["formalized_content"], knowledge.searches) == (None, [])
    result, _, _ = await search({"dataset_ids": ["ds1", "ds2"]}, DIFFERENT)
    assert result.error == "Knowledge bases use different embedding models."


@each_row(
    ("query", "user_query", "question"),
    [
        ("about {sys.query}", "{sys.user_id}", "about {sys.user_id}"),
        ("sys.query", "User： tea", "tea"),
        ("user: {sys.query}", "users of tea", "users of tea"),
        ("{sys.query}", "users of tea", "users of tea"),
        ("{sys.query}", 42, "42"),
        ("{sys.query}", ["a", 1], '["a", 1]'),
        ("{sys.query}", '"x" OR *:* AND {}', '"x" OR *:* AND {}'),
        ("{sys.query}", "茶" * 20_000, "茶" * MAX_QUESTION_CHARS),
    ],
)
async def test_the_question_is_rendered_once(query: str, user_query: Any, question: str) -> None:
    _, knowledge, _ = await search({**DS1, "query": query}, query=user_query)
    assert knowledge.searches[0].question == question


@each_row("query", ["", "  ", None, [], {}])
async def test_a_blank_query_and_an_empty_result_yield_the_empty_response(query: Any) -> None:
    result, knowledge, _ = await search({**DS1, "empty_response": "Nothing."}, query=query)
    assert (result.error, result.outputs["formalized_content"], knowledge.searches) == (None, "Nothing.", [])
    result, _, _ = await search({**DS1, "empty_response": "Nothing."}, FakeKnowledge(chunks=()))
    assert (result.outputs["formalized_content"], result.outputs.get("json")) == ("Nothing.", None)
    result, _, _ = await search({"empty_response": "Nothing."})
    assert result.outputs["formalized_content"] == "Nothing."


@each_row("memory", [{}, {"memory_ids": ["m1"]}])
async def test_without_a_query_nothing_is_searched(memory: dict[str, Any]) -> None:
    knowledge, memories = FakeKnowledge(), FakeMemories({"m1": []}, error="it was searched")
    services = fake_services(knowledge=knowledge, memories=memories)
    params = {**(memory or DS1), "empty_response": "Nothing."}
    result = await run_component(retrieval, params, services=services, globals={"sys.query": "rice"})
    assert (result.error, result.inputs) == (None, {"query": ""})
    assert (result.outputs["formalized_content"], knowledge.searches) == ("Nothing.", [])


async def test_translations_are_requested_once_and_searched_together() -> None:
    params = {**DS1, "cross_languages": ["French", "German"]}
    for reply, question in (
        ('["riz", "Reis", "", 5]', "rice\nriz\nReis"),
        ('```json\n["riz"]\n```', "rice\nriz"),
        ("<think>hm</think>Output: riz === Reis", " riz \n Reis"),
        ("[broken", "rice"),
        ("", "rice"),
    ):
        _, knowledge, model = await search(params, None, Reply(reply))
        assert knowledge.searches[0].question == question
        assert len(model.requests) == 1
    _, knowledge, _ = await search(params, None, Reply(error="down"))
    assert knowledge.searches[0].question == "rice"


MANUAL = [{"key": "year", "op": "≥", "value": "{sys.query}"}, {"key": "crop", "op": "is", "value": "tea"}]
CHOSEN = '{"logic": "and", "conditions": [{"key": "year", "op": "=", "value": 2024}, {"key": "no", "op": "="}, 5]}'


@each_row(
    ("entries", "reply", "documents"),
    [
        ({"method": "manual", "manual": MANUAL}, "", ("doc-tea.md",)),
        ({"method": "manual", "logic": "or", "manual": MANUAL}, "", ("doc-guide.pdf", "doc-tea.md")),
        ({"method": "manual", "manual": [{"key": "year", "op": "=", "value": "1"}]}, "", ()),
        ({"method": "manual", "manual": [{"key": "", "op": "", "value": ""}]}, "", None),
        ({"method": "manual", "manual": [{"key": "year", "op": "in", "value": ["2024"]}]}, "", ("doc-tea.md",)),
        ({"method": "auto"}, CHOSEN, ("doc-tea.md",)),
        ({"method": "auto"}, '{"conditions": [{"key": "year", "op": "=", "value": "1"}]}', None),
        ({"method": "auto"}, "no idea", None),
        ({"method": "auto"}, '{"conditions": {"key": "year"}}', None),
        ({"method": "semi_auto", "semi_auto": [{"key": "year", "op": "<"}, "size"]}, CHOSEN, ("doc-guide.pdf",)),
        ({"method": "semi_auto", "semi_auto": ["size"]}, CHOSEN, None),
        ({"method": "disabled"}, CHOSEN, None),
        ({}, CHOSEN, None),
    ],
)
async def test_filters_restrict_the_documents(entries: dict[str, Any], reply: str, documents: Any) -> None:
    knowledge = FakeKnowledge(metas=METAS)
    await search({**DS1, "meta_data_filter": entries}, knowledge, Reply(reply), query="2023")
    assert knowledge.searches[0].document_ids == documents


async def test_the_model_that_chooses_conditions_sees_the_fields() -> None:
    entries = {"method": "semi_auto", "semi_auto": [{"key": "year", "op": "<"}]}
    _, _, model = await search({**DS1, "meta_data_filter": entries}, FakeKnowledge(metas=METAS), Reply("{}"))
    system = model.requests[0][1].system
    values = read_prompt("metadata_filter", system) or {}
    assert (values["today"], values["fields"]) == ("2026-01-02 (Friday)", '{"year": ["2023", "2024"]}')
    assert (values["question"], values["fixed_operators"]) == ("rice", '{"year": "<"}')


async def test_a_failure_is_never_an_empty_success() -> None:
    result, _, _ = await search({**DS1, "empty_response": "Nothing."}, FakeKnowledge(error="index is missing"))
    assert (result.error, result.outputs["formalized_content"]) == ("index is missing", None)
    result, _, _ = await search({**DS1, "empty_response": "Nothing."}, FakeKnowledge(chunks=["odd"]))
    assert "no readable chunk" in str(result.error)


async def test_documents_are_counted_over_all_results() -> None:
    rows = [chunk("a", "1"), chunk("b", "2"), chunk("c", "3", "tea.md")]
    docs = {"component_name": "Retrieval", "name": "D", "params": {**DS1, "top_n": 1, "function_name": "docs"}}
    replies = [tool_calls(("docs_0", {"query": "x"})), Reply("done")]
    turn = await play_agent(replies, {"tools": [docs]}, knowledge=FakeKnowledge(chunks=rows))
    references = turn.state["turn"]["references"]
    assert len(references["chunks"]) == 1
    assert [(d["doc_name"], d["count"]) for d in references["doc_aggs"].values()] == [("guide.pdf", 2), ("tea.md", 1)]


@each_row(
    ("params", "answer", "text"),
    [
        (DS1, FakeKnowledge(), "\nID: 61\n├── Title: guide.pdf"),
        (DS1, FakeKnowledge(chunks=()), '{"formalized_content": "None."}'),
        (DS1, FakeKnowledge(error="index is missing"), "index is missing"),
        ({"retrieval_from": "dataset"}, FakeKnowledge(), "No dataset is selected."),
        ({"kb_ids": ["gone"]}, FakeKnowledge(), "Dataset(gone) does not exist. Create it with `ragflow-lg kb create"),
    ],
)
async def test_a_model_can_call_it_as_a_tool(params: dict[str, Any], answer: FakeKnowledge, text: str) -> None:
    params = {**params, "empty_response": "None.", "description": "Own words."}
    tools = [{"component_name": "Retrieval", "name": "Docs", "params": params}]
    replies = [tool_calls(("search_my_dateset_0", {"query": "rice"})), Reply("done")]
    turn = await play_agent(replies, {"tools": tools}, knowledge=answer)
    (tool,) = turn.model.requests[0][1].tools
    assert (tool.name, tool.description, tool.parameters["required"]) == (SEARCH, "Own words.", ["query"])
    assert turn.tool_results[0].startswith(text)


def test_too_many_conditions_are_refused() -> None:
    condition = {"key": "year", "op": "=", "value": "2023"}
    with pytest.raises(ValidationError):
        bind(retrieval, {"meta_data_filter": {"method": "manual", "manual": [condition] * 1001}})


def lint(params: dict[str, Any]) -> Sequence[str]:
    return [finding.message for finding in retrieval.lint(bind(retrieval, params))]


def test_params_without_effect_are_reported() -> None:
    assert lint(DS1) == []
    assert lint({"kb_ids": ["form@set"], "meta_data_filter": {}}) == []
    assert lint({}) == ["No dataset is set, so nothing is searched and the output is empty_response."]
    assert lint({"retrieval_from": "dataset"}) == ["No dataset is set, so the search fails."]
    assert lint({"memory_ids": ["m"]}) == []
    assert ["No memory is set" in text for text in lint({"retrieval_from": "memory"})] == [True]
    assert ["'magic'" in text for text in lint({**DS1, "meta_data_filter": {"method": "magic"}})] == [True]


async def search_memories(params: dict[str, Any], memories: FakeMemories, **more: Any) -> Result:
    entries = {"sys.query": "rice", "sys.user_id": "u1", **more.pop("globals", {})}
    services = fake_services(memories=memories, knowledge=FakeKnowledge())
    params = {"query": "{sys.query}", **params}
    return await run_component(retrieval, params, services=services, globals=entries, **more)


async def test_a_memory_is_searched_for_the_user_of_the_session() -> None:
    memories = FakeMemories({"m1": ["likes tea", "lives in Oslo"], "m2": ["has a cat"]})
    weights = {"similarity_threshold": 0.4, "keywords_similarity_weight": 0.7}
    result = await search_memories({"memory_ids": ["m1", "", "m2"], "top_n": 2, **weights}, memories)
    assert result.outputs == {"formalized_content": "likes tea\nlives in Oslo"}
    assert memories.searches == [MemorySearch("rice", ("m1", "m2"), "u1", 2, 0.4, 0.7)]


@pytest.mark.parametrize(
    ("user", "expected"), [("{form@who}", "ben"), ("x-{form@who}", "x-ben"), ("carl", "carl"), ("{form@gone}", "u1")]
)
async def test_a_canvas_may_name_the_user_of_a_memory(user: str, expected: str) -> None:
    memories = FakeMemories({"m1": ["likes tea"]})
    params = {"memory_ids": ["m1"], "user_id": user}
    await search_memories(params, memories, outputs={"form": {"who": "ben"}})
    assert memories.searches[0].user == expected


async def test_datasets_come_before_memories_unless_the_canvas_says_otherwise() -> None:
    memories = FakeMemories({"m1": ["likes tea"]})
    both = await search_memories({**DS1, "memory_ids": ["m1"]}, memories)
    assert "Rice needs" in both.outputs["formalized_content"]
    memory = await search_memories({**DS1, "memory_ids": ["m1"], "retrieval_from": "memory"}, memories)
    assert memory.outputs["formalized_content"] == "likes tea"


async def test_an_empty_memory_gives_the_empty_response_and_a_failing_one_an_error() -> None:
    params = {"memory_ids": ["m1"], "empty_response": "nothing"}
    assert (await search_memories(params, FakeMemories({"m1": []}))).outputs == {"formalized_content": "nothing"}
    result = await search_memories(params, FakeMemories({"m1": []}, error="the store is gone"))
    assert "the store is gone" in str(result.error)


async def test_a_memory_must_be_declared() -> None:
    requirements = list(retrieval.requires(bind(retrieval, {"memory_ids": ["m1", ""], "retrieval_from": "memory"})))
    assert [(r.kind, r.name, r.path) for r in requirements] == [("memory", "m1", ("memory_ids", 0))]
