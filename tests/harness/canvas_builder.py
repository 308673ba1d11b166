"""Building of random canvases: nodes, templates and scripted models."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fakes.canvas import node

MODEL = "scripted@Test"
VARIABLES: dict[str, dict[str, Any]] = {
    "s": {"name": "s", "type": "string", "value": "start"},
    "n": {"name": "n", "type": "number", "value": 0},
    "l": {"name": "l", "type": "array<string>", "value": ["b", "a", "c", "a"]},
    "o": {"name": "o", "type": "object", "value": {"k": "one", "j": "two"}},
}
_SYSTEM: dict[str, Any] = {
    "sys.query": "",
    "sys.user_id": "",
    "sys.conversation_turns": 0,
    "sys.files": [],
    "sys.history": [],
}
_PIECES = ("one ", "<b>", "drei, ", "四", '{"k": 1}', "x y", "end.")
_TEXTS = ("", "a", "-", "then ", "; ", "é")
Part = tuple[str, list[str]]
"""The first node of a part and its last ones."""
Body = Callable[["Scope", int], Part]
"""Adds the nodes of a region's body, the given number of parts."""


@dataclass
class Scope:
    """What a part can refer to, and where it is."""

    parent: str = ""
    texts: list[str] = field(default_factory=lambda: ["sys.query", "env.s"])
    numbers: list[str] = field(default_factory=lambda: ["env.n", "sys.conversation_turns"])
    lists: list[str] = field(default_factory=lambda: ["env.l"])
    is_parallel: bool = False
    is_iteration: bool = False
    depth: int = 0

    def branch(self) -> "Scope":
        """Return the scope of a branch, whose outputs the nodes after it do not read."""
        return replace(self, texts=[*self.texts], numbers=[*self.numbers], lists=[*self.lists], depth=self.depth + 1)


class CanvasBuilder:
    """The components of a canvas, the script of its models, and the query of each turn."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.components: dict[str, Any] = {}
        self.script: list[dict[str, Any]] = []
        self.queries: list[str] = []
        self.variables = {name: {**variable} for name, variable in VARIABLES.items()}

    def case(self, name: str) -> dict[str, Any]:
        """Return the canvas as a conformance case without results."""
        self.finish()
        variables = {f"env.{key}": variable["value"] for key, variable in self.variables.items()}
        document: dict[str, Any] = {
            "components": self.components,
            "history": [],
            "path": [],
            "retrieval": [],
            "globals": {**_SYSTEM, **variables},
            "variables": self.variables,
        }
        return {"id": name, "dsl": document, "turns": [{"query": q, "llm_script": self.script} for q in self.queries]}

    def finish(self) -> None:
        """Complete the list of upstream nodes, which RAGFlow's editor stores too."""
        for component in self.components.values():
            component["upstream"] = []
        for name, component in self.components.items():
            for target in component["downstream"]:
                self.components[target]["upstream"].append(name)

    def put(self, kind: str, params: Mapping[str, Any], scope: Scope) -> str:
        """Add a node. No id contains another one, because RAGFlow replaces them in texts one after another."""
        name = f"{kind}:N{len(self.components) + 100}"
        parent = {"parent_id": scope.parent} if scope.parent else {}
        self.components[name] = {**node(kind, dict(params)), **parent}
        return name

    def link(self, sources: Sequence[str], target: str) -> None:
        for source in sources:
            self.components[source]["downstream"].append(target)

    def template(self, scope: Scope, *required: str) -> str:
        """Return a text with references. No blank is next to one."""
        references = [*required, *(self._any(scope) for _ in range(self.chance.randint(0, 3)))]
        self.chance.shuffle(references)
        words = [self.chance.choice(_TEXTS).strip() for _ in references]
        return "".join(f"{{{reference}}}[{word}]" for reference, word in zip(references, words, strict=True)) or "text"

    def _any(self, scope: Scope) -> str:
        return self.chance.choice(self.chance.choice((scope.texts, scope.texts, scope.numbers, scope.lists)))

    def text(self, scope: Scope) -> Part:
        name = self.put("StringTransform", with_result({"method": "merge", "script": self.template(scope)}), scope)
        scope.texts.append(f"{name}@result")
        return name, [name]

    def message(self, scope: Scope, *required: str) -> Part:
        params: dict[str, Any] = {"content": [self.template(scope, *required)]}
        if self.chance.random() < 0.15 and not required:
            params["stream"] = False
        name = self.put("Message", params, scope)
        scope.texts.append(f"{name}@content")
        return name, [name]

    def model(self, scope: Scope, pieces: Sequence[str] | None = None, **params: Any) -> str:
        """Add a model with scripted pieces; a third of the others fail and have a default value."""
        is_failing = pieces is None and self.chance.random() < 0.3
        chunks = pieces or [self.chance.choice(_PIECES) + str(number) for number in range(self.chance.randint(1, 5))]
        if pieces is None and self.chance.random() < 0.2:
            chunks = ["<think>", "hm", "</think>", *chunks]
        system = f"I am {len(self.components) + 100}."
        settings: dict[str, Any] = {"llm_id": MODEL, "sys_prompt": system, "delay_after_error": 0, "cite": False}
        settings["prompts"] = [{"role": "user", "content": self.template(scope)}]
        settings |= {"max_retries": 0, "outputs": {"content": {"type": "string", "value": ""}}, **params}
        if is_failing:
            chunks = ["**ERROR**: down"]
            settings |= {"exception_method": "comment", "exception_default_value": "the default"}
        self.script.append({"match": system, "chunks": list(chunks), "repeat": True})
        return self.put("LLM", settings, scope)

    def assign(self, scope: Scope, *changes: tuple[str, str, Any]) -> Part:
        """Add a VariableAssigner with (variable, operator, parameter)."""
        rows = [{"variable": name, "operator": operator, "parameter": value} for name, operator, value in changes]
        name = self.put("VariableAssigner", {"variables": rows}, scope)
        return name, [name]


def with_result(params: Mapping[str, Any], type_: str = "string") -> dict[str, Any]:
    """Return parameters with the output ``result``, as RAGFlow's editor declares it."""
    return {**params, "outputs": {"result": {"type": type_, "value": ""}}}
