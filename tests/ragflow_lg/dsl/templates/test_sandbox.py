import asyncio
import time
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from jinja2 import TemplateError

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import ComponentError, WorkLimitError
from ragflow_lg.dsl.templates import render_budget as template_budget
from ragflow_lg.dsl.templates import sandbox as template_sandbox
from ragflow_lg.dsl.templates.render import render, render_jinja
from ragflow_lg.dsl.templates.render_budget import MAX_SECONDS
from ragflow_lg.dsl.variable_references import parse_template


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncGenerator[WorkerPool]:
    """Yield worker processes that have imported Jinja already."""
    pool = WorkerPool(size=2)
    yield pool
    await pool.aclose()


def render_sandboxed(source: str) -> str:
    """Render a template without references."""
    template_budget.start_budget()
    return template_sandbox.compile_template(source).render()


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
        "{{ 'a' | center(3000000) }}",
        "{{ ('a ' * 50000) | wordwrap(1, wrapstring='x' * 50000) }}",
        "{{ ('a' * 100001) | wordwrap(1) }}",
        "{{ ('a ' * 60000) | pprint }}",
        "{{ ('a ' * 60000) | urlize }}",
        "{{ ('http://a.b ' * 50) | urlize(target='x' * 50000) }}",
        "{{ [1] | tojson(1000) }}",
        "{{ ['a'] | random }}",
        "{{ '%s' | format('a') }}",
        "{{ 'a' | attr('upper') }}",
        "{{ ('f' * 100000) | int(0, 16) }}",
        "{{ 2 ** 900 // 3 }}",
        "{{ 2 ** 900 - 3 ** 500 }}",
        "{{ 2 ** 900 / 3 ** 500 }}",
        "{{ 2 ** 900 % 3 }}",
        "{{ {'a': 1}.keys() - ['a'] }}",
        "{{ dict([(1, 2)]) }}",
        "{{ namespace([(1, 2)]).a }}",
        "{{ ['a'] | batch(100000000, 'x') | list }}",
        "{{ ['a'] | slice(100000000) | list }}",
        "{{ ('a\n' * 1000) | indent(100000) }}",
        "{{ 'x'.join(range(10000)).replace('x', 'y' * 1000) }}",
        "{{ ('x' * 10000).join(range(10000)) }}",
    ],
)
def test_unsupported_features_raise(source: str) -> None:
    with pytest.raises(TemplateError):
        render_sandboxed(source)


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
def test_supported_features_work(source: str, expected: str) -> None:
    macro = "{% macro m() %}{{ caller(1) }}{% endmacro %}"
    assert render_sandboxed(macro + source) == expected


def test_a_template_is_checked_without_running_it() -> None:
    template_sandbox.check("{% for i in range(10 ** 9) %}{{ 1 / 0 }}{% endfor %}")
    with pytest.raises(TemplateError, match="No filter named 'no_such'"):
        template_sandbox.check("{{ 1 | no_such }}")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ [1].append(2) }}", r"The method append\(\) is not supported"),
        ("{{ x.y.format(1) }}", r"The method format\(\) is not supported"),
        ("{{ now() }}", r"There is no function now\(\)"),
        ("{% if false %}{{ lipsum() }}{% endif %}", "There is no function lipsum"),
    ],
)
def test_unknown_calls_are_reported_without_running(source: str, problem: str) -> None:
    with pytest.raises(TemplateError, match=problem):
        template_sandbox.check(source)


def test_a_template_may_call_its_own_macros() -> None:
    template_sandbox.check("{% macro m() %}{% endmacro %}{{ m() }}{% for a in [] recursive %}{{ loop(a) }}{% endfor %}")
    template_sandbox.check("{{ dict(a=1) }}{{ 'a'.replace('a', 'b') }}{{ x.items() }}")


@pytest.mark.parametrize("source", ["{% for a in [1] %}" * 25 + "{% endfor %}" * 25, "{{ 1" + "0" * 5000 + " }}"])
def test_limits_of_pythons_parser_are_reported(source: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        template_sandbox.check(source)


@pytest.mark.parametrize("source", ["a{% raw %} b {% endraw %}\n", "{{- 'x' -}} y\r\n", "{# c #}\n\n"])
def test_tokens_joined_are_the_same_template(source: str) -> None:
    joined = "".join(text for _, text in template_sandbox.tokenize(source))
    assert render_sandboxed(joined) == render_sandboxed(source)


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
        "{% set d = {'a': 'x' * 1000000} %}{{ [d.items()] * 300 }}",
        "{% set s = ('a.' * 9000) ~ 'a' %}{{ range(10000) | map(attribute=s, default={}) | list | length }}",
        *(
            "{% set s='a'*1500000 %}{% set p='ab'+'a'*700000 %}{{ s." + method + "(p) }}"
            for method in ("rfind", "rindex", "rsplit", "rpartition")
        ),
        *(
            "{% set s='a'*1500000 %}{% set p='b'*1000000+'a' %}{{ " + use + " }}"
            for use in ("s.strip(p)", "s.lstrip(p)", "s.rstrip(p)", "s | trim(p)")
        ),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_runaway_is_stopped_without_blocking_others(
    source: str, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await render(parse_template("{{ 'a'.upper() }}"), {}, pool)  # a new process imports Jinja
    monkeypatch.setattr(render_jinja, "seconds", 0.4)
    rendering = asyncio.create_task(render(parse_template(source), {}, pool))
    turns = 0
    while not rendering.done():
        await asyncio.sleep(0 if turns < 100 else 0.001)
        turns += 1
    with pytest.raises((ComponentError, WorkLimitError), match="The template"):
        await rendering
    assert turns > 2


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "{% set h = namespace(v='x') %}{% for i in range(60) %}{% set h.v = namespace(a=h.v, b=h.v) %}{% endfor %}"
            "{{ [h.v] }}{{ [h.v] | upper }}",
            '["<Namespace>"]["<NAMESPACE>"]',
        ),
        (
            "{% set p = 2 ** 61 - 1 %}{{ (range(0, 9999 * p, p) | list + range(1, 9999 * p, p) | list)"
            " | unique | list | length }}",
            "19998",
        ),
        ("{{ ('<!--' * 200000) | striptags | length }}", "800000"),
        ("{{ ('<!---->' * 200000) | striptags | length }}", "0"),
    ],
)
def test_hostile_templates_are_quick(source: str, expected: str) -> None:
    began = time.process_time()
    assert render_sandboxed(source) == expected
    assert time.process_time() - began < MAX_SECONDS


def test_methods_of_texts_show_no_address() -> None:
    assert "<method replace>" in render_sandboxed('{{ "a".replace }}')
    assert "cbc" in render_sandboxed('{{ "aba".replace("a", "c") }}')
    for source in ("{{ 'a'.replace.func }}", "{{ 'a'.replace.args }}"):
        assert "0x" not in render_sandboxed(source)
