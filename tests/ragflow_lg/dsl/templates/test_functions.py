import copy
import json
from typing import Any

from jinja2 import Template, TemplateError
from jinja2 import filters as jinja_filters
from jinja2 import tests as jinja_tests
from jinja2.sandbox import SandboxedEnvironment

from ragflow_lg.base.values import to_text
from ragflow_lg.dsl.templates import sandbox as template_sandbox
from ragflow_lg.dsl.templates.sandbox import format_value
from tests.harness.rows import each_row, read_rows


@each_row(("source", "expected"), read_rows("template_functions"))
def test_functions_filters_and_methods(source: str, expected: str) -> None:
    template_sandbox.check(template_sandbox.parse(source))
    assert template_sandbox.compile_template(template_sandbox.parse(source)).render() == expected


# The whole list of filters and tests, compared with Jinja's own

EXCLUDED = {"attr", "format", "random"}
"""Filters that need other arguments, or do not exist here."""

OF_TEXTS = (
    *("capitalize", "center", "e", "escape", "forceescape", "indent", "lower", "replace", "safe", "string"),
    *("striptags", "title", "trim", "truncate", "upper", "urlize", "wordcount", "wordwrap"),
)  # fmt: skip
"""Filters that see a text: here that of every value as elsewhere (row ``list-text``), in Jinja in Python's notation."""

ARGUMENTS = {
    "batch": ["2", "2, 'x'"], "center": ["", "9"], "d": ["'x'", "'x', true"], "default": ["'x'", "'x', true"],
    "dictsort": ["", "by='value'"], "filesizeformat": ["", "true"], "groupby": ["'a'", "'a', default=1"],
    "indent": ["", "2, true", "'> '"], "join": ["", "', '"], "map": ["'abs'", "attribute='a'"],
    "reject": ["", "'none'"], "rejectattr": ["'a'"], "replace": ["'a', 'x'", "'a', '', 1"],
    "round": ["", "1", "0, 'floor'"], "select": ["", "'number'"], "selectattr": ["'a'", "'a', 'eq', 1"],
    "slice": ["2", "2, 'x'"], "sort": ["", "true", "attribute='a'"], "sum": ["", "attribute='a'"],
    "tojson": ["", "2"], "truncate": ["", "4, true", "4, true, '~', 0"], "urlize": ["", "8, true, '_blank'"],
    "wordwrap": ["", "3", "3, false, '/'"], "xmlattr": ["", "false"],
}  # fmt: skip
ODD: list[Any] = [None, True, 1, "x"]
NOT_HASHABLE: list[list[Any]] = [[{"a": 1, "b": 2}, {"a": 1}], [[1, 2], [3]]]
VALUES: list[Any] = [
    *("", "ab cd", 'say "hi"\\ <b>&\'', "äöü 😀\u2028x\n\ty", "12", "1.5", "see http://x.y/z?a=1, a@b.cd", "0x1f"),
    *(0, 5, -3, 2.5, 1e20, True, False, None),
    *([], ["b", "A", "a"], [3, 1, 2], {}, {"k": 1, "a": "x"}, {"k": [1, {"z": None}]}, ODD, *NOT_HASHABLE),
]
JINJA = SandboxedEnvironment(finalize=format_value)


def outcome(template: Template, value: Any) -> str:
    """Return what a template shows, or ``error`` if it is shown unrendered."""
    try:
        return template.render(v=copy.deepcopy(value))
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return "error"


def compile_ours(source: str) -> Any:
    return template_sandbox.compile_template(template_sandbox.parse(source))


def compile_both(source: str) -> tuple[Any, Any]:
    """Return a template of ours and of Jinja, or texts in place of those that cannot be compiled."""
    made: list[Any] = []
    for compile_ in (compile_ours, JINJA.from_string):
        try:
            made.append(compile_(source))
        except TemplateError:
            made.append(JINJA.from_string("error"))
    return made[0], made[1]


@each_row("name", sorted(jinja_filters.FILTERS.keys() - EXCLUDED))
def test_a_filter_has_jinjas_result(name: str) -> None:
    for arguments in ARGUMENTS.get(name, [""]):
        ours, jinjas = compile_both(f"{{{{ v | {name}({arguments}) }}}}")
        for value in VALUES:
            if name == "unique" and value in NOT_HASHABLE:
                continue  # an error in Jinja
            if name == "join" and value in (*NOT_HASHABLE, ODD):
                value = [to_text(item) for item in value]
            expected = outcome(jinjas, to_text(value) if name in OF_TEXTS else value)
            assert (value, outcome(ours, value)) == (value, expected)


@each_row("name", sorted(name for name in jinja_tests.TESTS if name.isalpha()))
def test_a_test_has_jinjas_result(name: str) -> None:
    for arguments in ("", "(1)", "('a')", "([1, 'ab cd'])"):
        ours, jinjas = compile_both(f"{{{{ v is {name}{arguments} }}}}")
        for value in (*VALUES, "upper", "odd"):
            assert (value, outcome(ours, value)) == (value, outcome(jinjas, value))


def test_tojson_writes_json_of_every_value() -> None:
    plain, _ = compile_both("{{ v | tojson }}")
    inside, _ = compile_both('{"a": {{ v | tojson(indent=1) }}}')
    for value in VALUES:
        assert (json.loads(outcome(plain, value)), json.loads(outcome(inside, value))) == (value, {"a": value})


@each_row(
    "source",
    ["{{ ('<' | safe) | e }}", "{{ v | tojson | e }}", "{{ ('<' | e) + '<' }}", "{{ ('<' | safe) is escaped }}"],
)
def test_what_is_safe_is_not_escaped_again(source: str) -> None:
    ours, jinjas = compile_both(source)
    assert outcome(ours, "a<b") == outcome(jinjas, "a<b")
