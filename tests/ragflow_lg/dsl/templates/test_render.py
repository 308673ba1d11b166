import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import MAX_TEXT_CHARS
from ragflow_lg.dsl.templates.render import MAX_OUTPUT_CHARS, MAX_SOURCE_CHARS, find_syntax_error, has_jinja, render
from ragflow_lg.dsl.variable_references import ReferenceScope, parse_template
from ragflow_lg.services.workers import NoWorkers
from tests.harness.rows import each_row, read_rows


async def rendered(source: str, scope: ReferenceScope | None = None, **values: Any) -> str:
    """Render with ``n_result=5`` as the value of ``n@result``."""
    by_reference = {name.replace("_", "@"): value for name, value in values.items()}
    return await render(parse_template(source, scope), by_reference, NoWorkers())


@each_row(
    ("source", "expected"),
    [
        ("plain {n@result}", False), ("{{ n@result }} and { braces }", False), ("{% open and {n@result}", False),
        ("%} {% wrong way round", False), ("{% if {n@result} %}x{% endif %}", True),
        ("{{ {n@result} | upper }}", True), ("{{ 1 }}", True), ("a }} b", True),
    ],
)  # fmt: skip
def test_jinja_is_recognised_apart_from_references(source: str, expected: bool) -> None:
    assert has_jinja(parse_template(source)) is expected


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # of Jinja, for a backslash before another letter
@each_row(("source", "values", "expected"), read_rows("templates"))
async def test_values_keep_their_type_in_a_template(source: str, values: dict[str, Any], expected: str) -> None:
    assert await rendered(source, **values) == expected


async def test_the_output_is_not_searched_for_tokens() -> None:
    assert await rendered("{{ 1 }} n_result {n@result} \\1", n_result="n_result {{ 7 }} {n@result}") == (
        "1 n_result n_result {{ 7 }} {n@result} \\1"
    )


async def test_references_may_have_the_same_token_or_begin_with_a_digit() -> None:
    template = parse_template("{{ 0 }}{a:b@c}{a_b@c}{% if {1@x} %}{1@x}{% endif %}")
    assert await render(template, {"a:b@c": "1", "a_b@c": "2", "1@x": "y"}, NoWorkers()) == "012y"


@each_row(
    "source",
    [
        "{n@result} {% if %}", "{n@result} {{ 1 / 0 }}", "{n@result} {{ missing.key.deeper }}",
        "{n@result} {{ 'a' | no_such_filter }}", "{n@result} {% include 'file' %}",
        "{n@result} {{ ''.__class__ }}{{ ''.__class__.__mro__ }}", "{n@result} {{ [1].append(2) }}",
        "{n@result} {{ range(10 ** 9) }}", "{n@result} {% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{n@result} " + "{% for a in [1] %}" * 25 + "{% endfor %}" * 25, "{n@result} {{ " + "(" * 3000 + " }}",
        "{n@result} {{ " + "1+" * 9000 + "1 }}", "{n@result} {{ 'abcdefgh' | truncate(1) }}",
        "{n@result} {{ 1" + "0" * 5000 + " }}",
    ],
)  # fmt: skip
async def test_a_failing_template_is_shown_with_its_references_filled_in(source: str) -> None:
    assert await rendered(source, n_result=5) == source.replace("{n@result}", "5")


async def test_a_template_or_text_that_is_too_long_is_rejected() -> None:
    source = "{{ 1 }}" + " " * MAX_SOURCE_CHARS
    with pytest.raises(ComponentError, match="longer than"):
        await rendered(source)
    assert "longer than" in find_syntax_error(parse_template(source))
    with pytest.raises(ComponentError, match="would exceed"):
        await rendered("{n@result}" * 1000, n_result="x" * (MAX_TEXT_CHARS // 10))


@each_row(
    ("source", "expected"),
    [
        ("{% if {n@result} %}x{% endif %}", ""),
        ("{% if %}", "Expected an expression, got 'end of statement block'"),
        ("{{ 1 | no_such_filter }}", "No filter named 'no_such_filter'"),
        ("{{ 1 {n@result} }}", "expected token 'end of print statement', got 'n@result'"),
        *(
            (source, f"A reference cannot be a part of a name, as in {name}")
            for source, name in [
                ("{{ {n@result}.item_{n@result} }}!", "item_n@result"),
                ("{{ dict(a{n@result}=1) }}", "an@result"),
                ("{% macro foo{n@result}() %}{% endmacro %}", "foon@result"),
                ("{% block b{n@result} %}{% endblock %}", "bn@result"),
                ("{{ x.a{n@result}() }}", "an@result"),
                ("{{ a{n@result} }}", "an@result"),
            ]
        ),
        ("{{ {n@result} $ }}", "unexpected char '$'"),
        ("{{ {n@result}.append(1) }}", "The method append() is not supported"),
        ("{% for a in [1] %}" * 25 + "{% endfor %}" * 25, "too many statically nested blocks"),
    ],
)
def test_a_syntax_error_is_described(source: str, expected: str) -> None:
    assert find_syntax_error(parse_template(source)) == expected


pieces = st.sampled_from(
    [
        *(
            "{% for x in {n@result} %}",
            "{% endfor %}",
            "{% if {n@result} %}",
            "{% endif %}",
            "{{ {n@result} ~ {n@result} }}",
        ),
        *("{{ {n@result} * {n@result} }}", "{{ x | list }}", "{{ {n@result} | join({n@result}) }}"),
        *("{{", "}}", "{%", "%}", "{n@result}", "text"),
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=9,
)


@settings(max_examples=60)
@given(st.lists(pieces, max_size=8), values)
def test_the_output_of_any_template_is_bounded(parts: list[str], value: Any) -> None:
    text = asyncio.run(rendered("".join(parts), n_result=value))
    assert len(text) <= MAX_OUTPUT_CHARS
