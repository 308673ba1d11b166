"""Differences in the flow, texts, models and values."""

from tests.harness.canvas_builder import Part
from tests.harness.difference_parts import add_variable, chain, part_of, put_message, put_switch, put_text, streamed
from tests.harness.random_canvases import RandomCanvas

# The flow


@part_of("no-silent-drop")
def _unread_branch(canvas: RandomCanvas) -> Part:
    one, other = put_text(canvas, "one"), put_text(canvas, "other")
    message, ends = put_message(canvas, f"{{{one}@result}}/{{{other}@result}}")
    canvas.link([one, other], message)
    return put_switch(canvas, canvas.scope, one, other), ends


@part_of("join-once")
def _uneven_join(canvas: RandomCanvas) -> Part:
    start, short, long, longer = (put_text(canvas, text) for text in ("s", "a", "b", "c"))
    join, ends = put_message(canvas, "joined")
    canvas.link([start], short)
    canvas.link([start], long)
    canvas.link([long], longer)
    canvas.link([short, longer], join)
    return start, ends


@part_of("started-in-vain")
def _guarded_join(canvas: RandomCanvas) -> Part:
    start, short, long, longer = (put_text(canvas, text) for text in ("s", "a", "b", "c"))
    join, ends = put_message(canvas, f"{{{short}@result}}{{{longer}@result}}")
    canvas.link([start], short)
    canvas.link([start], long)
    canvas.link([long], longer)
    canvas.link([short, longer], join)
    return start, ends


@part_of("unread-model")
def _unread_model(canvas: RandomCanvas) -> Part:
    message, ends = put_message(canvas, "unread")
    model = canvas.model(canvas.scope, ["never read"])
    canvas.link([model], message)
    return model, ends


@part_of("router-default")
def _failing_router(canvas: RandomCanvas) -> Part:
    one, _ = put_message(canvas, "one")
    other, ends = put_message(canvas, "other")
    name = put_switch(canvas, canvas.scope, one, other, cpn_id="env.n", operator=">", value="x")
    canvas.components[name]["obj"]["params"] |= {"exception_method": "comment", "exception_default_value": "d"}
    return name, ends


# Texts


def _show_text(canvas: RandomCanvas, script: str, content: str = "{%s@result}") -> Part:
    name = put_text(canvas, script)
    return chain(canvas, name, put_message(canvas, content % name)[0])


@part_of("blanks")
def _blanks(canvas: RandomCanvas) -> Part:
    return put_message(canvas, "a {env.s} b {sys.query} c")


@part_of("braces")
def _braces(canvas: RandomCanvas) -> Part:
    return _show_text(canvas, "{ sys.query }")


@part_of("jinja-values")
def _jinja(canvas: RandomCanvas) -> Part:
    return put_message(canvas, '{% if {sys.conversation_turns} == "1" %}first{% else %}later{% endif %}')


@part_of("last-line-break")
def _last_line(canvas: RandomCanvas) -> Part:
    return put_message(canvas, "{sys.query}-\n", stream=False)


@part_of("think-in-values")
def _thinking_value(canvas: RandomCanvas) -> Part:
    return _show_text(canvas, "<think>hm</think>so", "[{%s@result}]")


@part_of("jinja-fallback")
def _broken_template(canvas: RandomCanvas) -> Part:
    return put_message(canvas, "{% if %} {sys.query}")


@part_of("nested-env")
def _nested_variable(canvas: RandomCanvas) -> Part:
    return put_message(canvas, "{env.o.k}")


@part_of("unknown-global")
def _unknown_variable(canvas: RandomCanvas) -> Part:
    return put_message(canvas, "-{env.nothing}-")


@part_of("unknown-component")
def _unknown_node(canvas: RandomCanvas) -> Part:
    return put_message(canvas, "-{Nobody:Here@result}-")


# Models


@part_of("repeated-piece")
def _repeated(canvas: RandomCanvas) -> Part:
    return streamed(canvas, ["ha", "ha", "!"])


@part_of("split-tags")
def _split_tag(canvas: RandomCanvas) -> Part:
    return streamed(canvas, ["<thi", "nk>hm</think>", "so"])


@part_of("adjacent-thinking")
def _two_thoughts(canvas: RandomCanvas) -> Part:
    return streamed(canvas, ["<think>", "a", "</think>", "<think>", "b", "</think>", "so"])


@part_of("stream-failures")
def _broken_stream(canvas: RandomCanvas) -> Part:
    return streamed(canvas, ["part", "**ERROR**: gone"])


@part_of("structured-checks")
def _unchecked_answer(canvas: RandomCanvas) -> Part:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    model = canvas.model(canvas.scope, ['{"b": 1}'], outputs={"structured": schema, "content": {"type": "string"}})
    return chain(canvas, model, put_message(canvas, f"{{{model}@structured}}")[0])


@part_of("category-names")
def _category_names(canvas: RandomCanvas) -> Part:
    one, _ = put_message(canvas, "short")
    other, ends = put_message(canvas, "long")
    described = {"order": {"to": [one], "description": "about names"}, "order status": {"to": [other]}}
    canvas.script.append({"match": "about names", "reply": "order status", "repeat": True})
    params = {"llm_id": "scripted@Test", "query": "sys.query", "category_description": described}
    name = canvas.put("Categorize", params, canvas.scope)
    canvas.components[name]["downstream"] = [one, other]
    return name, ends


@part_of("category-lines")
def _two_lines(canvas: RandomCanvas) -> Part:
    text = put_text(canvas, "two\nlines")
    one, ends = put_message(canvas, "one")
    canvas.script.append({"match": "about lines", "reply": "lines", "repeat": True})
    described = {"lines": {"to": [one], "description": "about lines"}}
    params = {"llm_id": "scripted@Test", "query": f"{text}@result", "category_description": described}
    name = canvas.put("Categorize", params, canvas.scope)
    return chain(canvas, text, name, one)[0], ends


# Values


@part_of("aggregator-values")
def _zero(canvas: RandomCanvas) -> Part:
    add_variable(canvas, "zero", "number", 0)
    groups = [{"group_name": "g", "type": "number", "variables": [{"value": "env.zero"}, {"value": "sys.query"}]}]
    name = canvas.put("VariableAggregator", {"groups": groups, "outputs": {"g": {"type": "number"}}}, canvas.scope)
    return chain(canvas, name, put_message(canvas, f"{{{name}@g}}")[0])


@part_of("copied-values")
def _shared_list(canvas: RandomCanvas) -> Part:
    add_variable(canvas, "other", "array<string>", [])
    changes = ("env.other", "overwrite", "env.l"), ("env.other", "append", "env.s")
    name, _ = canvas.assign(canvas.scope, *changes)
    return chain(canvas, name, put_message(canvas, "{env.l}{env.other}")[0])


@part_of("assigner-errors")
def _impossible(canvas: RandomCanvas) -> Part:
    name, _ = canvas.assign(canvas.scope, ("env.s", "append", "sys.query"))
    return chain(canvas, name, put_message(canvas, "{env.s}")[0])


@part_of("assigner-numbers")
def _number_text(canvas: RandomCanvas) -> Part:
    name, _ = canvas.assign(canvas.scope, ("env.n", "+=", "2"))
    return chain(canvas, name, put_message(canvas, "{env.n}")[0])


@part_of("literals")
def _signed(canvas: RandomCanvas) -> Part:
    add_variable(canvas, "signed", "object", {"a": "-3", "b": "4"})
    params = {"query": ["env.signed"], "operations": "literal_eval"}
    name = canvas.put("DataOperations", {**params, "outputs": {"result": {"type": "Array<Object>"}}}, canvas.scope)
    return chain(canvas, name, put_message(canvas, f"{{{name}@result}}")[0])


@part_of("switch-contains")
def _list_contains(canvas: RandomCanvas) -> Part:
    add_variable(canvas, "words", "array<string>", ["x", "y"])
    one, _ = put_message(canvas, "one")
    other, ends = put_message(canvas, "other")
    return put_switch(canvas, canvas.scope, one, other, cpn_id="env.words", value="'x', 'y'"), ends


@part_of("switch-types")
def _number_contains(canvas: RandomCanvas) -> Part:
    one, _ = put_message(canvas, "one")
    other, ends = put_message(canvas, "other")
    return put_switch(canvas, canvas.scope, one, other, cpn_id="sys.conversation_turns", value="1"), ends
