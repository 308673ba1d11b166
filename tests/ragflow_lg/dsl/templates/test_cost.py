from typing import Any

import pytest

from ragflow_lg.dsl.templates.sandbox import is_cheap


@pytest.mark.parametrize(
    "source",
    [
        "Hello {{ name }}",
        "{% if n > 5 and name is defined %}{{ name | upper }}{% else %}{{ rows[0].title | default('-') }}{% endif %}",
        "{% for row in rows %}- {{ loop.index }}. {{ row.title | trim | e }}\n{% endfor %}".replace(" | trim", ""),
        "{{ rows | length }} rows",
        "{{ invalid",
    ],
)
def test_ordinary_templates_are_cheap(source: str) -> None:
    rows: list[Any] = [{"title": "a"}] * 50
    assert is_cheap(source, {"name": "x" * 100, "rows": rows, "n": 5})


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 1500000 }}",
        "{{ name.rfind('x') }}",
        "{{ name | trim(name) }}",
        "{% set a = name ~ name %}{{ a }}",
        "{% for a in rows %}{% for b in rows %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n - 1) }}{% endmacro %}{{ f(9) }}",
        "{{ range(10000) | list }}",
        "{{ rows | join(name) }}",
        "{{ rows | map('upper') | list }}",
        "{{ name is in(rows) }}",
        "{{ 2 ** 9 }}",
        "{{ name[::2] }}",
    ],
)
def test_templates_that_can_repeat_or_multiply_are_not(source: str) -> None:
    assert not is_cheap(source, {"name": "x", "rows": []})


@pytest.mark.parametrize(
    ("source", "values"),
    [("{{ a }}", {"a": "x" * 20_000}), ("{% for b in a %}{{ b }}{% endfor %}", {"a": ["x"] * 2000})],
)
def test_large_values_are_not_cheap(source: str, values: dict[str, Any]) -> None:
    assert is_cheap(source, {"a": []})
    assert not is_cheap(source, values)
