"""Random canvases in which ragflow-lg and RAGFlow must have the same results.

They contain every kind of flow: chains, branches, routers, Loops, Iterations, forms, failing nodes and models. They
avoid what a row of ``docs/fidelity.md`` describes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.fakes.canvas import node
from tests.harness.canvas_builder import MODEL, Body, CanvasBuilder, Part, Scope, with_result


class RandomCanvas(CanvasBuilder):
    """A random canvas, the script of its models, and the query of each turn."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.has_form = False
        self.scope = Scope()
        first, last = self.sequence(self.scope, self.chance.randint(2, 4))
        end, self.ends = self.message(self.scope)  # a canvas that ends in a region differs
        self.link(last, end)
        self.components = {"begin": node("Begin", {}, [first]), **self.components}
        self.queries = [
            self.chance.choice(("Hello", "a question", "ask: b, c")) for _ in range(1 if self.has_form else 2)
        ]

    def sequence(self, scope: Scope, length: int) -> Part:
        """Add parts one after the other."""
        first, last = "", list[str]()
        for _ in range(length):
            start, ends = self._part(scope)
            self.link(last, start)
            first, last = first or start, ends
        return first, last

    def _part(self, scope: Scope) -> Part:
        parts = [self.text, self.message, self.answer, self._split, self._list, self._object, self._aggregate]
        if not scope.is_parallel:
            parts += [self.assignment, self.assignment, self._failure]
            if not scope.parent:
                parts.append(self.form)
            if scope.depth < 2:
                parts += [self._fan, self._switch, self._categorize]
                if not scope.parent:
                    parts += [self.loop, self.iteration]
        return self.chance.choice(parts)(scope)

    # Single nodes

    def answer(self, scope: Scope) -> Part:
        """Add a model and a Message that streams it, or another reader."""
        model = self.model(scope)
        content = f"{model}@content"
        is_thinking = "<think>" in self.script[-1]["chunks"]
        if self.chance.random() < 0.6:
            reader, _ = self.message(scope, content)
            scope.texts += [] if is_thinking else [content]  # row think-in-values
        else:
            scope.texts.append(content)
            reader, _ = self.text(scope)
        self.link([model], reader)
        return model, [reader]

    def _split(self, scope: Scope) -> Part:
        params = {"method": "split", "split_ref": self.chance.choice(scope.texts), "delimiters": [",", " "]}
        name = self.put("StringTransform", with_result(params), scope)
        scope.lists.append(f"{name}@result")
        return name, [name]

    def _list(self, scope: Scope) -> Part:
        operation = self.chance.choice(("nth", "head", "tail", "sort", "drop_duplicates", "filter"))
        params: dict[str, Any] = {"query": self.chance.choice(scope.lists), "operations": operation}
        params |= {"n": self.chance.randint(-3, 3), "sort_method": self.chance.choice(("asc", "desc"))}
        params |= {"filter": {"operator": self.chance.choice(("=", "≠", "contains")), "value": "a"}}
        outputs = {"result": {"type": "Array<string>"}, "first": {"type": "string"}, "last": {"type": "string"}}
        name = self.put("ListOperations", {**params, "outputs": outputs}, scope)
        scope.lists.append(f"{name}@result")
        return name, [name]

    def _object(self, scope: Scope) -> Part:
        operation = self.chance.choice(("select_keys", "remove_keys", "rename_keys", "append_or_update", "combine"))
        params: dict[str, Any] = {"query": ["env.o"], "operations": operation, "select_keys": ["k"]}
        params |= {"remove_keys": ["j"], "rename_keys": [{"old_key": "k", "new_key": "z"}]}
        params |= {"updates": [{"key": "u", "value": f"{{{self.chance.choice(scope.texts)}}}"}]}
        name = self.put("DataOperations", with_result(params, "Array<Object>"), scope)
        return name, [name]

    def _aggregate(self, scope: Scope) -> Part:
        choices = [{"value": reference} for reference in self.chance.sample(scope.texts, min(2, len(scope.texts)))]
        params = {"groups": [{"group_name": "g", "type": "string", "variables": choices}]}
        name = self.put("VariableAggregator", {**params, "outputs": {"g": {"type": "string"}}}, scope)
        return name, [name]

    def assignment(self, scope: Scope) -> Part:
        changes: list[tuple[str, str, Any]] = [
            ("env.s", "overwrite", self.chance.choice(scope.texts)),
            ("env.s", "set", self.template(scope)[:60].rpartition("]")[0] + "]"),
            ("env.s", "clear", None),
            ("env.n", self.chance.choice(("+=", "-=", "*=")), self.chance.randint(1, 3)),
            ("env.n", "set", self.chance.randint(0, 9)),
        ]
        if not scope.is_iteration:
            changes.append(("env.l", "append", self.chance.choice(scope.texts)))
            changes.append(("env.l", self.chance.choice(("remove_first", "remove_last")), None))
        return self.assign(scope, self.chance.choice(changes))

    def form(self, scope: Scope, **more: Any) -> Part:
        kinds = self.chance.sample(("line", "paragraph", "integer", "boolean"), self.chance.randint(1, 3))
        fields = {f"{kind}_field": {"name": kind, "type": kind, "optional": False} for kind in kinds}
        tips = self.template(scope) if self.chance.random() < 0.5 else ""
        name = self.put("UserFillUp", {"enable_tips": bool(tips), "tips": tips, "inputs": fields, **more}, scope)
        for key, definition in fields.items():
            (scope.texts if definition["type"] in ("line", "paragraph") else scope.numbers).append(f"{name}@{key}")
        self.has_form = True
        return name, [name]

    def _failure(self, scope: Scope) -> Part:
        """Add a node that fails: with a default value, with another way, or with the end of the run."""
        params: dict[str, Any] = {"query": "env.s", "operations": "head", "n": 1}
        params["outputs"] = {"result": {"type": "Array<string>"}}
        name = self.put("ListOperations", params, scope)
        settings = self.components[name]["obj"]["params"]
        if self.chance.random() < 0.5:
            settings |= {"exception_method": "comment", "exception_default_value": "failed"}
            return name, [name]
        target, ends = self.text(scope.branch())
        other, other_ends = self.message(scope.branch())
        self.link([name], other)
        settings |= {"exception_method": "goto", "exception_goto": [target]}
        return name, [*ends, *other_ends]

    # Branches

    def _fan(self, scope: Scope) -> Part:
        """Add branches of the same length before a join."""
        start, _ = self.text(scope)
        inner = scope.branch()
        inner.is_parallel = True
        length, ends, outputs = self.chance.randint(1, 2), list[str](), list[str]()
        for _ in range(self.chance.randint(2, 3)):
            branch = inner.branch()
            last = [start]
            for _ in range(length):
                name, _ = self.text(branch)
                self.link(last, name)
                last = [name]
            ends += last
            outputs.append(f"{last[0]}@result")
        join, _ = self.message(scope, *outputs)
        self.link(ends, join)
        return start, [join]

    def _switch(self, scope: Scope) -> Part:
        cases: list[dict[str, Any]] = []
        first, last = self.sequence(scope.branch(), self.chance.randint(1, 2))
        otherwise, ends = self.sequence(scope.branch(), self.chance.randint(1, 2))
        for logic in ("and", "or")[: self.chance.randint(1, 2)]:
            items = [self._condition(scope) for _ in range(self.chance.randint(1, 2))]
            cases.append({"logical_operator": logic, "items": items, "to": [first]})
        name = self.put("Switch", {"conditions": cases, "end_cpn_ids": [otherwise]}, scope)
        self.components[name]["downstream"] = [first, otherwise]
        return name, [*last, *ends]

    def _condition(self, scope: Scope) -> dict[str, Any]:
        kind = self.chance.choice("tnl")
        if kind == "t":
            operator = self.chance.choice(("contains", "not contains", "start with", "end with", "empty", "=", "≠"))
            return {"cpn_id": self.chance.choice(scope.texts), "operator": operator, "value": self.chance.choice("abS")}
        if kind == "n":
            operator = self.chance.choice((">", "<", "≥", "≤", "=", "≠"))
            return {"cpn_id": "env.n", "operator": operator, "value": str(self.chance.randint(0, 3))}
        return {
            "cpn_id": self.chance.choice(scope.lists),
            "operator": self.chance.choice(("empty", "not empty")),
            "value": "",
        }

    def _categorize(self, scope: Scope) -> Part:
        parts = [self.sequence(scope.branch(), 1) for _ in range(self.chance.randint(2, 3))]
        names = ("praise", "complaint", "question")
        system = f"about {len(self.components) + 100}"
        described = {
            name: {"description": system, "examples": ["x"], "to": [part[0]]}
            for name, part in zip(names, parts, strict=False)
        }
        self.script.append({"match": system, "reply": self.chance.choice((*described, "nothing")), "repeat": True})
        params = {"llm_id": MODEL, "query": self.chance.choice(scope.texts), "category_description": described}
        params |= {
            "message_history_window_size": self.chance.choice((1, 2)),
            "outputs": {"category_name": {"type": "string"}},
        }
        name = self.put("Categorize", params, scope)
        self.components[name]["downstream"] = [part[0] for part in parts]
        return name, [end for part in parts for end in part[1]]

    # Regions

    def loop(self, scope: Scope, body: "Body | None" = None, **more: Any) -> Part:
        """Add a Loop that counts ``n``; ``body`` adds what is in it."""
        row = {"variable": "n", "input_mode": "constant", "type": "number", "value": 0}
        name = self.put("Loop", {"loop_variables": [row], "maximum_loop_count": self.chance.randint(2, 4)}, scope)
        limit = {"variable": f"{name}@n", "operator": "≥", "value": self.chance.randint(1, 3), "input_mode": "constant"}
        params = {"loop_termination_condition": [limit], "logical_operator": self.chance.choice(("and", "or"))}
        self.components[name]["obj"]["params"] |= params | more
        inner = replace(scope.branch(), parent=name)
        inner.numbers.append(f"{name}@n")
        item = self.put("LoopItem", {}, inner)
        count, _ = self.assign(inner, (f"{name}@n", "+=", 1))
        self.link([item], count)
        first, _ = (body or self.sequence)(inner, self.chance.randint(1, 2))
        self.link([count], first)
        scope.numbers.append(f"{name}@n")
        return name, [name]

    def iteration(self, scope: Scope, body: "Body | None" = None, items: str = "env.l") -> Part:
        """Add an Iteration that collects a text of each round; ``body`` adds what follows it in the body."""
        name = self.put("Iteration", {"items_ref": items}, scope)
        inner = replace(scope.branch(), parent=name, is_iteration=True)
        item = self.put("IterationItem", {}, inner)
        inner.texts.append(f"{item}@item")
        inner.numbers.append(f"{item}@index")
        kept, _ = self.text(inner)
        self.link([item], kept)
        outputs = {"out": {"ref": f"{kept}@result", "type": "Array<string>"}}
        self.components[name]["obj"]["params"]["outputs"] = outputs
        if body or self.chance.random() < 0.7:
            first, _ = (body or self.sequence)(inner, self.chance.randint(1, 2))
            self.link([kept], first)
        scope.lists.append(f"{name}@out")
        return name, [name]


def answer_form(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for each field of a form."""
    values = {"line": "Ann", "paragraph": "two words", "integer": 7, "boolean": True}
    return {
        name: {"name": field["name"], "type": field["type"], "value": values.get(field["type"])}
        for name, field in fields.items()
    }
