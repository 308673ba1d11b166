"""Canvases that are written in Python."""

from ragflow_lg.ejected import Canvas, Node, open_services
from tests.harness.rows import each_row


def shout(text: str) -> str:
    """Return a text in capitals."""
    return f"{text.upper()}!"


async def test_a_canvas_of_nodes_and_a_function_runs() -> None:
    begin, loud = Node("begin", "Begin"), Node("Shout:A", shout, {"arguments": {"text": "{sys.query} {env.shop}"}})
    reply = Node("Message:A", "Message", {"content": ["{Shout:A@result}"]}, title="Reply")
    canvas = Canvas("Shop", variables={"env.shop": "lamps"})
    for node in (begin, loud, reply):
        canvas.add_node(node)
    canvas.add_edge(begin, loud)
    canvas.add_edge(loud, reply)
    async with open_services(model="demo") as services:
        graph = canvas.compile(services=services)
        state = await graph.ainvoke({"query": "hello"})
    assert state["messages"][-1]["content"] == "HELLO LAMPS!"
    assert (graph.plan.title, graph.plan.nodes["Message:A"].title) == ("Shop", "Reply")  # pyright: ignore[reportArgumentType]


@each_row("value", [1, "7", [1], {"a": 1}, "", False])
def test_variables_keep_their_values(value: object) -> None:
    canvas = Canvas("", variables={"env.a": value, "sys.own": ""})
    canvas.add_node(Node("begin", "Begin"))
    values = canvas.compile().plan.globals
    assert (values["env.a"], values["sys.own"]) == (value, "")
