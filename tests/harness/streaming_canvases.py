"""Random canvases full of streamed Messages, and scripts for their models."""

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.canvas import canvas, node, text
from tests.fakes.regions import assign, form
from tests.fakes.services import Reply, ScriptedModel

_WORDS = ("one ", "two\n", "<b>", "{sys.query}", "drei, ", "四", '{"k": 1}', " ", "end.")
VARIABLES = {
    "s": {"name": "s", "type": "string", "value": "start"},
    "n": {"name": "n", "type": "number", "value": 0},
    "items": {"name": "items", "type": "array<string>", "value": ["a", "b", "c"]},
}


@dataclass
class Scope:
    """What a part of the canvas can refer to, and what it may contain."""

    parent: str = ""
    references: list[str] = field(default_factory=lambda: ["sys.query", "sys.conversation_turns", "env.s", "env.n"])
    loop: str = ""
    is_parallel: bool = False
    depth: int = 0


class StreamingCanvas:
    """A random canvas: its document, and the replies of its models."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.components: dict[str, Any] = {}
        self.replies: list[Reply] = []
        first, _ = self._sequence(Scope(), self.chance.randint(2, 4))
        self.document = canvas(self.components, [first], variables=VARIABLES)

    def model(self) -> ScriptedModel:
        """Return a model that plays the replies from the beginning."""
        return ScriptedModel(list(self.replies))

    def _put(self, kind: str, component: dict[str, Any], scope: Scope) -> str:
        name = f"{kind}{len(self.components)}"
        self.components[name] = {**component, **({"parent_id": scope.parent} if scope.parent else {})}
        return name

    def _link(self, sources: list[str], target: str) -> None:
        for source in sources:
            self.components[source]["downstream"].append(target)

    def _sequence(self, scope: Scope, length: int) -> tuple[str, list[str]]:
        """Add parts one after the other. Return the first node and the last ones."""
        first, last = "", list[str]()
        for _ in range(length):
            start, ends = self._part(scope)
            self._link(last, start)
            first, last = first or start, ends
        return first, last

    def _part(self, scope: Scope) -> tuple[str, list[str]]:
        parts = [self._answer, self._answer, self._answers, self._text, self._text]
        if not scope.is_parallel:
            parts += [self._assignment, self._form]
        if scope.depth < 2:
            parts += [self._side_by_side, self._choice, self._loop, self._iteration]
        return self.chance.choice(parts)(scope)

    # Single nodes

    def _message_text(self, scope: Scope, models: list[str]) -> str:
        pieces = [f"{{{model}@content}}" for model in models for _ in range(self.chance.choice((1, 1, 1, 2)))]
        pieces += [f"{{{self.chance.choice(scope.references)}}}" for _ in range(self.chance.randint(0, 3))]
        self.chance.shuffle(pieces)
        return "".join(piece + self.chance.choice(("", ":", " | ")) for piece in pieces) or "nothing"

    def _message(self, scope: Scope, models: list[str]) -> str:
        texts = [self._message_text(scope, models) for _ in range(self.chance.choice((1, 1, 1, 2)))]
        params = {"content": texts} | ({"stream": False} if self.chance.random() < 0.1 else {})
        name = self._put("m", node("Message", params), scope)
        scope.references.append(f"{name}@content")
        return name

    def _llm(self, scope: Scope) -> str:
        name = f"g{len(self.components)}"
        params: dict[str, Any] = {"llm_id": "m@T", "sys_prompt": f"I am {name}.", "delay_after_error": 0, "cite": False}
        params["prompts"] = [{"role": "user", "content": "{sys.query}"}]
        params["max_retries"] = self.chance.choice((0, 0, 1))
        fails = self.chance.random() < 0.3
        if fails and self.chance.random() < 0.9:
            params |= {"exception_method": "comment", "exception_default_value": f"default of {name}"}
        pieces = [self.chance.choice(_WORDS) for _ in range(self.chance.randint(0 if fails else 1, 6))]
        if self.chance.random() < 0.2:
            pieces[1:1] = ["<think>", "hm", "</think>"]
        pause_s = self.chance.choice((0.0, 0.0, 0.0005, 0.002))
        error = f"{name} is down." if fails else ""
        self.replies.append(Reply(chunks=pieces, match=f"I am {name}.", repeat=True, error=error, pause_s=pause_s))
        scope.references.append(f"{name}@content")
        return self._put("g", node("LLM", params), scope)

    def _text(self, scope: Scope) -> tuple[str, list[str]]:
        script = f"<{{{self.chance.choice(scope.references)}}}>"
        name = self._put("t", text(script=script), scope)
        scope.references.append(f"{name}@result")
        return name, [name]

    def _assignment(self, scope: Scope) -> tuple[str, list[str]]:
        target = f"{scope.loop}@n" if scope.loop and self.chance.random() < 0.5 else "env.s"
        name = self._put("a", assign(target, f"{{{self.chance.choice(scope.references)}}}+", "set"), scope)
        return name, [name]

    def _form(self, scope: Scope) -> tuple[str, list[str]]:
        name = self._put("f", form("x", tips="{env.s}?"), scope)
        scope.references.append(f"{name}@x")
        return name, [name]

    # Several nodes

    def _answer(self, scope: Scope) -> tuple[str, list[str]]:
        """Add a model before one to three Messages, not all of which read it."""
        model = self._llm(scope)
        messages: list[str] = []
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            reads = [model] if self.chance.random() < 0.9 else []
            messages.append(self._message(scope, reads))
        self._link([model], messages[0])
        if self.chance.random() < 0.5:
            for source, target in itertools.pairwise(messages):
                self._link([source], target)
            return model, [messages[-1]]
        for message in messages[1:]:
            self._link([model], message)
        return model, messages

    def _answers(self, scope: Scope) -> tuple[str, list[str]]:
        """Add models that run at the same time before one Message, beside other nodes."""
        start, _ = self._text(scope)
        models = [self._llm(scope) for _ in range(self.chance.randint(2, 3))]
        self._link([start], models[0])
        self._link([start], models[1])
        if len(models) > 2:
            self._link([self.chance.choice((start, models[0]))], models[2])
        message = self._message(scope, models)
        self._link(models, message)
        if self.chance.random() < 0.5:
            beside, ends = self.chance.choice((self._text, self._text if scope.is_parallel else self._assignment))(
                scope
            )
            self._link([start], beside)
            self._link(ends, message)
        return start, [message]

    def _side_by_side(self, scope: Scope) -> tuple[str, list[str]]:
        start, _ = self._text(scope)
        ends: list[str] = []
        inner = Scope(scope.parent, scope.references, scope.loop, scope.is_parallel, scope.depth + 1)
        for _ in range(2):
            first, last = self._sequence(inner, self.chance.randint(1, 2))
            self._link([start], first)
            ends += last
        return start, ends

    def _choice(self, scope: Scope) -> tuple[str, list[str]]:
        """Add exclusive branches before a Message that reads the models of both."""
        bare = [reference for reference in scope.references if reference != "item"]
        condition = {"cpn_id": self.chance.choice(bare), "operator": "contains", "value": "a"}
        one, other = self._llm(scope), self._llm(scope)
        cases = [{"logical_operator": "and", "items": [condition], "to": [one]}]
        switch = self._put("s", node("Switch", {"conditions": cases, "end_cpn_ids": [other]}), scope)
        message = self._message(scope, [one, other])
        self._link([one, other], message)
        return switch, [message]

    # Regions

    def _inside(self, scope: Scope, owner: str) -> Scope:
        return Scope(owner, [*scope.references], is_parallel=scope.is_parallel, depth=scope.depth + 1)

    def _loop(self, scope: Scope) -> tuple[str, list[str]]:
        row = {"variable": "n", "input_mode": "constant", "type": "string", "value": "0"}
        params = {"loop_variables": [row], "maximum_loop_count": self.chance.randint(1, 3)}
        owner = self._put("lp", node("Loop", params), scope)
        inner = self._inside(scope, owner)
        inner.loop = owner
        inner.references.append(f"{owner}@n")
        item = self._put("li", node("LoopItem"), inner)
        first, _ = self._sequence(inner, self.chance.randint(1, 3))
        self._link([item], first)
        return owner, [owner]

    def _iteration(self, scope: Scope) -> tuple[str, list[str]]:
        concurrency = self.chance.choice((0, 2, 3))
        owner = self._put("it", node("Iteration", {"items_ref": "env.items", "max_concurrency": concurrency}), scope)
        inner = self._inside(scope, owner)
        inner.is_parallel |= concurrency > 1
        item = self._put("ii", node("IterationItem"), inner)
        inner.references += [f"{item}@item", f"{item}@index", "item"]
        first, _ = self._sequence(inner, self.chance.randint(1, 3))
        self._link([item], first)
        return owner, [owner]
