"""Differences in Loops, Iterations and forms."""

from typing import Any

from tests.harness.canvas_builder import Part, Scope
from tests.harness.difference_parts import add_variable, chain, part_of, put_message, put_switch, put_text
from tests.harness.random_canvases import RandomCanvas

# Regions


@part_of("loop-no-condition")
def _unconditional(canvas: RandomCanvas) -> Part:
    changes: dict[str, Any] = {"loop_termination_condition": [], "logical_operator": "and"}
    name, _ = canvas.loop(canvas.scope, lambda scope, _: put_message(canvas, "round;", scope), **changes)
    return chain(canvas, name, put_message(canvas, "after")[0])


@part_of("loop-operators")
def _odd_operator(canvas: RandomCanvas) -> Part:
    limit = {"variable": "env.n", "operator": "contains", "value": "7", "input_mode": "constant"}
    name, _ = canvas.loop(
        canvas.scope, lambda scope, _: put_message(canvas, "round;", scope), loop_termination_condition=[limit]
    )
    return chain(canvas, name, put_message(canvas, "after")[0])


@part_of("loop-variables")
def _variable_without_mode(canvas: RandomCanvas) -> Part:
    rows = [{"variable": "n", "input_mode": "constant", "type": "number", "value": 0}, {"variable": "", "type": ""}]
    name, _ = canvas.loop(canvas.scope, lambda scope, _: put_message(canvas, "round;", scope), loop_variables=rows)
    return chain(canvas, name, put_message(canvas, "after")[0])


@part_of("region-reentry")
def _nested_regions(canvas: RandomCanvas) -> Part:
    def inner(scope: Scope, _length: int) -> Part:
        name, _ = canvas.iteration(scope, lambda scope, _: put_message(canvas, "i;", scope))
        return chain(canvas, name, put_message(canvas, "o;", scope)[0])

    limit = {"variable": "env.s", "operator": "is", "value": "never", "input_mode": "constant"}
    name, _ = canvas.loop(canvas.scope, inner, loop_termination_condition=[limit])
    return chain(canvas, name, put_message(canvas, "after")[0])


@part_of("region-last-in-body")
def _region_at_the_end(canvas: RandomCanvas) -> Part:
    name, _ = canvas.loop(
        canvas.scope, lambda scope, _: canvas.iteration(scope, lambda scope, _: put_message(canvas, "i;", scope))
    )
    return chain(canvas, name, put_message(canvas, "after")[0])


@part_of("region-ends")
def _exit(canvas: RandomCanvas) -> Part:
    def inner(scope: Scope, _length: int) -> Part:
        leave = canvas.put("ExitLoop", {}, scope)
        other, ends = put_message(canvas, "o;", scope)
        return put_switch(canvas, scope, leave, other, cpn_id="sys.query", operator="not empty"), [leave, *ends]

    name, _ = canvas.loop(canvas.scope, inner)
    return chain(canvas, name, put_message(canvas, "after")[0])


@part_of("round-ends")
def _uneven_branches(canvas: RandomCanvas) -> Part:
    def inner(scope: Scope, _length: int) -> Part:
        start, short, long = (put_text(canvas, text, scope) for text in ("s", "a", "b"))
        longer, _ = put_message(canvas, "long;", scope)
        canvas.link([start], short)
        canvas.link([start], long)
        canvas.link([long], longer)
        return start, [short, longer]

    name, _ = canvas.iteration(canvas.scope, inner)
    return chain(canvas, name, put_message(canvas, "after")[0])


@part_of("region-errors")
def _no_list(canvas: RandomCanvas) -> Part:
    name, _ = canvas.iteration(canvas.scope, items="env.s")
    return chain(canvas, name, put_message(canvas, "after")[0])


@part_of("iteration-lists")
def _empty_list(canvas: RandomCanvas) -> Part:
    add_variable(canvas, "none", "array<string>", [])
    name, _ = canvas.iteration(canvas.scope, items="env.none")
    return chain(canvas, name, put_message(canvas, f"{{{name}@out}}")[0])


@part_of("iteration-snapshot")
def _changing_list(canvas: RandomCanvas) -> Part:
    add_variable(canvas, "words", "array<string>", ["x", "y"])
    name, _ = canvas.iteration(
        canvas.scope, lambda scope, _: canvas.assign(scope, ("env.words", "remove_last", None)), items="env.words"
    )
    return chain(canvas, name, put_message(canvas, f"{{{name}@out}}")[0])


@part_of("alias-places")
def _alias(canvas: RandomCanvas) -> Part:
    name, _ = canvas.iteration(canvas.scope, lambda scope, _: put_message(canvas, "{item};", scope))
    return chain(canvas, name, put_message(canvas, "after")[0])


@part_of("ends-in-region")
def _ends_in_region(canvas: RandomCanvas) -> Part:
    return canvas.iteration(canvas.scope, lambda scope, _: put_message(canvas, "i;", scope))


# Forms


@part_of("fillup-new-turn")
def _turn_after_form(canvas: RandomCanvas) -> Part:
    canvas.queries = ["Hello", "again"]
    name, _ = canvas.form(canvas.scope)
    return chain(canvas, name, put_message(canvas, "thanks")[0])


@part_of("fillup-checked")
def _unlisted_option(canvas: RandomCanvas) -> Part:
    size = {"name": "size", "type": "options", "options": ["S", "M"], "answer": "XL", "optional": False}
    name, _ = canvas.form(canvas.scope, inputs={"size": size})
    return chain(canvas, name, put_message(canvas, f"{{{name}@size}}")[0])


@part_of("fillup-siblings")
def _beside_form(canvas: RandomCanvas) -> Part:
    start = put_text(canvas, "s")
    name, _ = canvas.form(canvas.scope)
    beside, after = put_message(canvas, "beside;")[0], put_message(canvas, "after;")[0]
    canvas.link([start], name)
    canvas.link([start], beside)
    canvas.link([beside], after)
    return start, [name, after]


@part_of("fillup-own-fields")
def _two_forms(canvas: RandomCanvas) -> Part:
    start = put_text(canvas, "s")
    names = [canvas.form(canvas.scope)[0] for _ in range(2)]
    join, ends = put_message(canvas, "both")
    canvas.link([start], names[0])
    canvas.link([start], names[1])
    canvas.link(names, join)
    return start, ends


@part_of("fillup-rounds")
def _form_in_rounds(canvas: RandomCanvas) -> Part:
    name, _ = canvas.iteration(canvas.scope, lambda scope, _: canvas.form(scope))
    return chain(canvas, name, put_message(canvas, "after")[0])
