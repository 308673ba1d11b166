from typing import Any, get_args

from ragflow_lg.server.assembly.example_questions import QuestionKind, find_questions
from tests.architecture.sources import ROOT
from tests.fakes.canvas import canvas, node, plan_of
from tests.harness.rows import each_row

ANSWERED = [{"role": "user", "content": "{sys.query}"}]


def begin(**params: Any) -> dict[str, Any]:
    return node("Begin", params, ["a"])


def llm(prompt: str, *tools: dict[str, Any]) -> dict[str, Any]:
    name = "Agent" if tools else "LLM"
    return node(name, {"llm_id": "m", "sys_prompt": prompt, "prompts": ANSWERED, **({"tools": tools} if tools else {})})


def tool(name: str, **params: Any) -> dict[str, Any]:
    return {"component_name": name, "name": name, "params": params}


def sorter(*examples: str) -> dict[str, Any]:
    categories = {f"c{at}": {"examples": [text], "to": ["b"]} for at, text in enumerate(examples)}
    return node("Categorize", {"llm_id": "m", "category_description": categories}, [])


HANDBOOK = node("Retrieval", {"kb_ids": ["Handbook"], "query": "sys.query"}, ["b"])
UNNAMED = node("Retrieval", {"kb_ids": ["0" * 32], "query": "sys.query"}, ["b"])
ROLE = "You are the help desk."


@each_row(
    ("title", "components", "found"),
    [
        (
            "",
            {"a": sorter("“Where is it?”\nWhen?", "My number is 203921\nBroken.")},
            ["Where is it?", "Broken.", "When?"],
        ),
        ("", {"a": HANDBOOK, "b": llm(ROLE)}, ["dataset Handbook", "summary Handbook", "abilities"]),
        ("", {"a": UNNAMED, "b": llm(ROLE)}, ["knowledge", "abilities", "beginning"]),
        ("", {"a": HANDBOOK, "b": llm("Write SQL for the question.")}, ["tables", "rows"]),
        ("Web search", {"a": llm(ROLE, tool("DuckDuckGo"), tool("Wikipedia"))}, ["encyclopedia", "news", "progress"]),
        ("Trip planner", {"a": llm(ROLE, tool("DuckDuckGo"))}, ["abilities", "beginning"]),
        ("Report", {"a": llm("List two reasons.")}, ["debate", "progress"]),
        ("Words", {"a": node("StringTransform", {"method": "merge", "script": "{sys.query}"})}, []),
        ("Report", {"begin": begin(inputs={"x": {"type": "line", "name": "X"}}), "a": llm(ROLE)}, []),
    ],
)
def test_questions_fit_what_the_canvas_can_answer(title: str, components: dict[str, Any], found: list[str]) -> None:
    components = {**components, **({} if "b" in components else {"b": node("Message", {"content": ["x"]})})}
    questions = find_questions(plan_of(canvas(components)), title)
    assert [value if kind == "own" else f"{kind} {value}".strip() for kind, value in questions] == found


def test_the_page_words_every_kind_of_question() -> None:
    texts = (ROOT / "server/page/js/needs_texts.js").read_text("utf-8")
    assert [kind for kind in get_args(QuestionKind) if kind != "own" and f'"ask-{kind}":' not in texts] == []
