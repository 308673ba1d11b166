import pytest

from ragflow_lg.dsl.templates import render_budget as template_budget
from ragflow_lg.dsl.templates import sandbox as template_sandbox
from ragflow_lg.dsl.templates.functions import find_operand_problem, list_forbidden_methods


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ 'one two three four' | truncate(8) }}", "one..."),
        ("{{ '<b>' | safe }}", "<b>"),
        ("{{ 'a\nb' | indent }}|{{ 'a\nb' | indent(1, true) }}|{{ 'a\nb' | indent('> ') }}", "a\n    b| a\n b|a\n> b"),
        ("{{ 'a b&c' | urlencode }} {{ {'a': 'b c'} | urlencode }}", "a%20b%26c a=b+c"),
        ("{{ '<p>a <!-- < --> &amp;\n <b>b</b></p> 1 < 2' | striptags }}", "a & b 1 < 2"),
        ("{{ [1, 2, 3] | batch(2) }} {{ [1, 2, 3] | batch(2, 0) }}", "[[1, 2], [3]] [[1, 2], [3, 0]]"),
        ("{{ [1, 2, 3] | slice(2) }}", "[[1, 2], [3]]"),
        ("{{ 'aab'.replace('a', 'x') }} {{ 'aab'.replace('a', 'x', 1) }}", "xxb xab"),
        ("{{ 'aab' | replace('a', 'x', 1) }}", "xab"),
        ("{{ ', '.join(['a', 1, none]) }}", "a, 1, "),
        ("{{ '12'.isdigit() }} {{ 'a'.isdigit() }} {{ 'a-b'.partition('-') }}", 'true false ["a", "-", "b"]'),
        ("{{ dict(a=1) }} {{ dict([('a', 2)], b=3) }} {{ dict({'a': 4}) }}", '{"a": 1} {"a": 2, "b": 3} {"a": 4}'),
        ("{{ namespace({'a': 1}, b=2).a }}", "1"),
        ("{{ '12' | int + '0x1f' | int(0, 16) + '4.5' | int + 'x' | int(1) }}", "48"),
        ("{{ ['b', 'B', 'a'] | unique }} {{ ['b', 'B'] | unique(true) }}", '["b", "a"] ["b", "B"]'),
        ("{{ [1, 1.0, true, '1', 1.5, none, '', [1], [1]] | unique }}", '[1, "1", 1.5, null, "", [1]]'),
        ("{{ [{'a': 1, 'b': 2}, {'a': 1}] | unique(attribute='a') }}", '[{"a": 1, "b": 2}]'),
        ("{{ {'a': 1}.items() }} {{ {'a': 1}.keys() }}", '[["a", 1]] ["a"]'),
        ("{{ 7 // 2 }} {{ 7 - 2 }} {{ 7 / 2 }} {{ 7 % 2 }}", "3 5 3.5 1"),
    ],
)
def test_functions_filters_and_methods(source: str, expected: str) -> None:
    template_sandbox.check(source)
    template_budget.start_budget()
    assert template_sandbox.compile_template(source).render() == expected


@pytest.mark.parametrize(
    ("operator", "left", "right", "is_refused"),
    [
        ("-", 2**256, 1, True),
        ("//", 2**256, 1, True),
        ("/", 2.0**300, 2, False),
        ("-", {1}, {2}, True),
        ("%", "a", 1, True),
        ("+", [1], [2], False),
        ("*", "x" * 1000, 10_000, True),
        ("**", 1000, 1000, False),
    ],
)
def test_operations_that_could_grow_are_refused(operator: str, left: object, right: object, is_refused: bool) -> None:
    assert bool(find_operand_problem(operator, left, right)) is is_refused


def test_methods_that_change_or_format_are_refused() -> None:
    assert {"append", "update", "format", "format_map", "zfill", "bit_length"} <= list_forbidden_methods()
    assert not {"upper", "get", "replace", "join"} & list_forbidden_methods()
