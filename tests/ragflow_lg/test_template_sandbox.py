from __future__ import annotations

import asyncio
import time

import pytest
from jinja2 import TemplateError

from ragflow_lg import template_sandbox
from ragflow_lg.errors import ComponentError
from ragflow_lg.refs import parse_template
from ragflow_lg.template_sandbox import MAX_SECONDS, MAX_SIZE, Budget
from ragflow_lg.templates import render


def sandboxed(source: str) -> str:
    """Render a template without references."""
    template_sandbox.start()
    return template_sandbox.compiled(source).render()


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ 'a'.format(1) }}",
        "{{ 'a'.zfill(9) }}",
        "{{ [].append(1) }}",
        "{{ {}.update(a=1) }}",
        "{{ range.__init__.__globals__ }}",
        "{{ (1).bit_length() }}",
        "{{ cycler(1) }}",
        "{{ lipsum() }}",
        "{{ self.__init__ () }}",
        "{{ '%d' % 1 }}",
        "{{ 1001 ** 2 }}",
        "{{ 2 ** 300 + 1 }}",
        "{{ 'x' * 3000000 }}",
        "{{ 'a' | center(9) }}",
        "{{ 'a' | attr('upper') }}",
    ],
)
def test_what_the_sandbox_does_not_offer(source: str) -> None:
    with pytest.raises(TemplateError):
        sandboxed(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ 'a'.upper() }}{{ {'a': 1}.get('a') }}", "A1"),
        ("{{ [1, 2] | select('equalto', 2) | list }}", "[2]"),
        ("{% call(x) m() %}{{ x }}{% endcall %}", "1"),
        ("{{ [1] * 2 }}{{ -1 * 'a' }}{{ 1.5 + 1 }}", "[1, 1]2.5"),
        ("{% filter upper %}a{% endfilter %}", "A"),
    ],
)
def test_what_it_offers(source: str, expected: str) -> None:
    macro = "{% macro m() %}{{ caller(1) }}{% endmacro %}"
    assert sandboxed(macro + source) == expected


def test_a_template_is_read_without_running_it() -> None:
    template_sandbox.check("{% for i in range(10 ** 9) %}{{ 1 / 0 }}{% endfor %}")
    with pytest.raises(TemplateError, match="No filter named 'no_such'"):
        template_sandbox.check("{{ 1 | no_such }}")


def test_a_budget_counts_what_a_value_holds_as_often_as_it_holds_it() -> None:
    shared = ["x" * 1000] * 1000
    Budget().charge({"key": shared})
    with pytest.raises(ComponentError, match="more than"):
        Budget().charge((shared,) * (MAX_SIZE // 1_000_000 + 1))


def test_a_budget_is_used_up() -> None:
    budget = Budget()
    budget.charge("x" * (MAX_SIZE - 10))
    with pytest.raises(ComponentError, match="more than"):
        budget.charge("x" * 10)


@pytest.mark.parametrize(
    "source",
    [
        "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        "".join(f"{{% set a{i + 1} = (a{i}, a{i}) %}}" for i in range(60)) + "{{ [a60] | unique | list }}",
        "{% set s = 'x' * 10 ** 6 %}{{ range(10000) | map(attribute='a', default=s) | map('upper') | list | length }}",
        "{{ range(10000) | map('replace', '', 'z' * 50000) | list | length }}",
        "{% set s %}{% for i in range(10000) %}" + "y" * 9000 + "{% endfor %}{% endset %}{{ s | length }}",
        "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
        "{% for a in range(10000) %}" + "y" * 9000 + "{% endfor %}",
    ],
)
async def test_a_runaway_is_stopped_while_others_go_on(source: str) -> None:
    rendering = asyncio.create_task(render(parse_template(source), {}))
    longest = 0.0
    while not rendering.done():
        began = time.perf_counter()
        await asyncio.sleep(0.01)
        longest = max(longest, time.perf_counter() - began)
    with pytest.raises(ComponentError, match="The template"):
        await rendering
    assert longest < MAX_SECONDS
