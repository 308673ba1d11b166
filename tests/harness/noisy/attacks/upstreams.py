"""Models, web services and MCP servers that answer without end, or not at all."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.canvas import canvas, node
from tests.harness.noisy.attack import Attack, Attacker
from tests.harness.noisy.upstream_answers import MODELS, PAGES

END = node("Message", {"content": ["done"]})
SHOWN = node("Message", {"content": ["{x@content}"]})
STRUCTURED = {"structured": {"type": "object", "properties": {"a": {"type": "string"}}}}


def _llm(model: str, shown: Mapping[str, Any] = SHOWN, **params: Any) -> dict[str, Any]:
    settings = {"llm_id": f"{model}@Hostile", "prompts": "{sys.query}", **params}
    return canvas({"x": node("LLM", settings, ["m"]), "m": dict(shown)})


def _agent(model: str, **params: Any) -> dict[str, Any]:
    settings = {"llm_id": f"{model}@Hostile", "prompts": "{sys.query}", "max_rounds": 1000, **params}
    return canvas({"x": node("Agent", settings, ["m"]), "m": SHOWN})


def _mcp(server: str, model: str = "one-call") -> dict[str, Any]:
    tools: dict[str, Any] = {"work": {"description": "Work.", "inputSchema": {"type": "object", "properties": {}}}}
    return _agent(model, mcp=[{"mcp_id": server, "tools": tools}])


def _invoke(address: str, **params: Any) -> dict[str, Any]:
    settings = {"url": address, "method": "GET", "timeout": 60, **params}
    return canvas({"x": node("Invoke", settings, ["m"]), "m": END})


def _by_upstream(name: str, summary: str, build: Callable[[str], Any], at_once: int = 4) -> Attack:
    """Return an attack by a canvas that is built with the address of the hostile server."""

    async def prepare(attacker: Attacker) -> None:
        attacker.kept["agent"] = await attacker.agent(build(attacker.target.upstream))

    async def step(attacker: Attacker) -> None:
        if attacker.kept["agent"]:
            await attacker.chat(attacker.kept["agent"])

    return Attack(name, summary, step, prepare, at_once)


def _by_model(model: str) -> Attack:
    return _by_upstream(f"model-{model}", f"a model: {MODELS[model]}", lambda _: _llm(model))


def _by_page(page: str) -> Attack:
    return _by_upstream(f"web-{page}", f"an address: {PAGES[page]}", lambda url: _invoke(f"{url}/{page}"))


_HEADERS = {f"X-{number}": "a" * 1000 for number in range(2000)}

ATTACKS: list[Attack] = [
    *(_by_model(model) for model in MODELS),
    *(_by_page(page) for page in PAGES),
    _by_upstream("model-silent", "an endless answer that is not streamed", lambda _: _llm("endless", END)),
    _by_upstream(
        "model-structured", "an endless structured answer", lambda _: _llm("endless", END, outputs=STRUCTURED)
    ),
    _by_upstream(
        "model-structured-deep", "a deep structured answer", lambda _: _llm("deep-text", END, outputs=STRUCTURED)
    ),
    _by_upstream("tool-calls", "5,000 tool calls in an answer", lambda _: _mcp("plain", "many-calls")),
    _by_upstream("tool-rounds", "tool calls without end", lambda _: _mcp("plain", "call-again")),
    _by_upstream("tool-arguments", "arguments nested 100,000 deep", lambda _: _mcp("plain", "deep-call")),
    _by_upstream("tool-large-arguments", "arguments of 8 MB", lambda _: _mcp("plain", "large-call")),
    _by_upstream("tool-names", "a name of 1 MB", lambda _: _mcp("plain", "long-name")),
    _by_upstream(
        "react-endless",
        "an endless thought of ReAct",
        lambda _: _agent("endless", strategy="react", mcp=_mcp("plain")["components"]["x"]["obj"]["params"]["mcp"]),
    ),
    _by_upstream("mcp-hangs", "an MCP server that never answers", lambda _: _mcp("hanging"), 16),
    _by_upstream("mcp-call-hangs", "an MCP tool that never returns", lambda _: _mcp("stuck"), 16),
    _by_upstream("mcp-large", "an MCP tool with an endless result", lambda _: _mcp("large")),
    _by_upstream(
        "web-html-cleaned", "a page of deeply nested HTML, cleaned", lambda url: _invoke(f"{url}/html", clean_html=True)
    ),
    _by_upstream(
        "web-headers-sent", "2,000 headers of 1 KB in a request", lambda url: _invoke(f"{url}/short", headers=_HEADERS)
    ),
    _by_upstream("web-hang-many", "300 turns that wait for an address", lambda url: _invoke(f"{url}/hang"), 300),
]
