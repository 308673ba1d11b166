import json
from typing import Any

from ragflow_lg.adapters.chat.demo_chat import DemoChat, quote_answer
from ragflow_lg.models.classification import NamedCategory, describe_categories
from ragflow_lg.models.engine_prompts import fill_prompt
from ragflow_lg.models.prompt_texts import PROMPTS
from ragflow_lg.models.structured_answer import append_schema, find_problems
from ragflow_lg.services.chat import ChatAnswer, ChatRequest, ToolSchema, Usage
from ragflow_lg.services.references import knowledge_text
from tests.fakes.prompts import head_of
from tests.harness.rows import each_row, read_rows

CHUNKS = [
    {"chunk_id": "1", "docnm_kwd": "leave.md", "content_with_weight": "Time > Leave\nTell us. There are 27 days."},
    {"chunk_id": "2", "docnm_kwd": "", "content_with_weight": "年假有十五天。工资月底发。"},
]


async def answer_to(request: ChatRequest) -> str:
    return (await DemoChat().complete(request)).text


def user_request(text: str, system: str = "", **more: Any) -> ChatRequest:
    return ChatRequest(system, ({"role": "user", "content": text},), **more)


async def test_the_echo_says_that_it_is_a_demo() -> None:
    answer = await answer_to(user_request("hello"))
    assert answer == "This is the demo model, not a real one. You said: hello"


async def test_a_stream_yields_the_same_answer_in_pieces() -> None:
    pieces = [delta.text async for delta in DemoChat().stream(user_request("hello"))]
    assert len(pieces) > 1
    assert "".join(pieces) == await answer_to(user_request("hello"))


@each_row(
    ("question", "expected"),
    [("my app crashes", "tech"), ("I want a REFUND", "billing"), ("发票在哪里", "billing"), ("what a day", "other")],
)
async def test_the_category_with_most_shared_words_is_chosen(question: str, expected: str) -> None:
    categories = [
        NamedCategory("billing", "money 发票", ("refund please",)),
        NamedCategory("tech", "bugs", ("it crashes",)),
        NamedCategory("other"),
    ]
    system = fill_prompt(PROMPTS["categorize"].text, describe_categories(categories))
    conversation = f'{head_of("categorize_message")}USER: "refund" | ASSISTANT: "crashes?" | USER: "{question}"'
    assert await answer_to(user_request(conversation, system)) == expected


async def test_without_a_match_the_last_category_comes_first_and_others_follow() -> None:
    system = fill_prompt(PROMPTS["categorize"].text, describe_categories([NamedCategory(name) for name in "abcd"]))
    assert await answer_to(user_request('USER: "hello"', system)) == "d"
    later = {await answer_to(user_request(f'USER: "x" | ASSISTANT: "{n}" | USER: "y"', system)) for n in range(20)}
    assert later == set("abcd")


@each_row(
    ("prompt", "expected"),
    [
        ("The user's query is Where is it?", "*Planner* would now answer “Where is it?”."),
        ("User‘s query：Where is it?", "*Planner* would now answer “Where is it?”."),
        ("Outline:\n*Writer* would now answer “Where”.", "*Planner* would now write its answer."),
        ("x" * 200, f"*Planner* would now answer “{'x' * 119}…”."),
    ],
)
async def test_an_answer_names_the_node_and_does_not_repeat_others(prompt: str, expected: str) -> None:
    assert (await DemoChat("Planner").complete(user_request(prompt))).text == expected


async def test_one_tool_that_takes_a_question_is_called_in_the_first_round() -> None:
    search = {"properties": {"query": {"type": "string"}, "days": {"type": "integer"}}, "required": ["query", "days"]}
    tools = (ToolSchema("browse", "", {"properties": {"url": {}}}), ToolSchema("find", "parcels", search))
    tools = (*tools, ToolSchema("other", "weather", search))
    request = user_request("Where are parcels?", tools=tools)
    demo = DemoChat("A", calls_tools=True)
    (call,) = (await demo.complete(request)).calls
    assert (call.name, json.loads(call.arguments)) == ("find", {"days": 1, "query": "Where are parcels?"})
    after = ChatRequest("", (*request.messages, {"role": "tool", "tool_call_id": "demo", "content": "r"}), tools=tools)
    assert await demo.complete(after) == ChatAnswer(
        "*A* would now answer “Where are parcels?” with what its tool returned.", usage=Usage(calls=1)
    )
    assert not (await DemoChat("A").complete(request)).calls
    assert [delta.calls async for delta in demo.stream(request)][-1] == (call,)


@each_row(
    ("name", "values", "message", "expected"),
    [
        ("standalone_question", {"conversation": 'USER: "a" | ASSISTANT: "b" | USER: "c?"'}, "Output: ", "c?"),
        ("plan_generation", {}, "Plan", '[{"name": "complete_task", "arguments": {}}]'),
        ("metadata_filter", {}, "Conditions:", '{"logic": "and", "conditions": []}'),
        ("translation", {}, "tea\nGerman", '["tea"]'),
        ("add_citations", {}, "Tea is hot.", "Tea is hot."),
    ],
)
async def test_the_prompts_of_the_engine_get_what_they_ask_for(
    name: str, values: dict[str, str], message: str, expected: str
) -> None:
    assert await answer_to(user_request(message, fill_prompt(PROMPTS[name].text, values))) == expected


async def test_a_schema_is_answered_with_an_example() -> None:
    rows: list[tuple[str, Any, Any]] = read_rows("demo_examples")
    schema = {"type": "object", "properties": {name: part for name, part, _ in rows}, "required": ["name", "few"]}
    answer = json.loads(await answer_to(user_request("q", append_schema("S", schema))))
    assert answer == {name: example for name, _, example in rows}
    assert find_problems(answer, schema) == []


async def test_a_deep_schema_is_cut_off() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(50):
        schema = {"type": "object", "properties": {"a": schema}}
    assert json.loads(await answer_to(user_request("q", append_schema("", schema))))["a"]["a"]


def test_the_best_sentence_is_quoted_with_its_chunk_number() -> None:
    prompt = f"Answer from this:\n{knowledge_text(CHUNKS)}\n\nGuidelines: how many days are told here."
    assert quote_answer("How many days?", prompt).endswith("“There are 27 days” (leave.md) [ID:383].")
    assert quote_answer("年假有多少天？", "", prompt).endswith("“年假有十五天” [ID:216].")
    rows = "Name: Aurora; Colour: red\nName: Aurora; Colour: black; Price: 7. Net"
    table = {**CHUNKS[0], "content_with_weight": rows}
    other = {**CHUNKS[1], "content_with_weight": "What does the black Aurora cost? It may cost much."}
    row = "“Name: Aurora; Colour: black; Price: 7. Net” (leave.md) [ID:383]."
    assert quote_answer("What does the black Aurora cost?", knowledge_text([table, other])).endswith(row)


async def test_knowledge_in_the_system_prompt_is_quoted_in_the_answer() -> None:
    assert "27 days" in await answer_to(user_request("How many days?", knowledge_text(CHUNKS)))
