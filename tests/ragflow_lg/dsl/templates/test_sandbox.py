import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from jinja2 import TemplateError

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import ComponentError, WorkLimitError
from ragflow_lg.dsl.templates import sandbox as template_sandbox
from ragflow_lg.dsl.templates.render import render, render_jinja
from ragflow_lg.dsl.variable_references import parse_template
from tests.harness.rows import each_row, read_rows


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncGenerator[WorkerPool]:
    """Yield worker processes that have imported Jinja already."""
    pool = WorkerPool(size=2)
    yield pool
    await pool.aclose()


def render_sandboxed(source: str) -> str:
    """Render a template without references."""
    return template_sandbox.compile_template(template_sandbox.parse(source)).render()


@each_row(
    "source",
    [
        "{{ ''.__class__.__mro__ }}", "{{ [].append(1) }}", "{{ {}.update(a=1) }}",
        "{{ range.__init__.__globals__ }}", "{{ lipsum() }}", "{{ self.__init__ () }}", "{{ ['a'] | random }}",
        "{{ ''.join.args[0].template_class('x') }}", "{{ ''.join._Join__separator.x }}",
        "{% autoescape 9**9**9 %}{% endautoescape %}",
    ],
)  # fmt: skip
def test_unsupported_features_raise(source: str) -> None:
    with pytest.raises(TemplateError):
        render_sandboxed(source)


@each_row(
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


@each_row("source", read_rows("template_sandbox"))
def test_checking_runs_nothing_and_computes_no_constants(source: str) -> None:
    template_sandbox.check(template_sandbox.parse(source))  # most would need the memory or the time of years


@each_row(
    ("source", "problem"),
    [
        ("{{ 1 | no_such }}", "No filter named 'no_such'"),
        ("{{ [1].append(2) }}", r"The method append\(\) is not supported"),
        ("{{ now() }}", r"There is no function now\(\)"),
        ("{% if false %}{{ lipsum() }}{% endif %}", "There is no function lipsum"),
    ],
)
def test_unknown_calls_are_reported_without_running(source: str, problem: str) -> None:
    with pytest.raises(TemplateError, match=problem):
        template_sandbox.check(template_sandbox.parse(source))


@each_row(
    "source",
    [
        "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
        "{% for a in range(10000) %}" + "y" * 9000 + "{% endfor %}",
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_runaway_is_stopped_without_blocking_others(
    source: str, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await render(parse_template("{{ 'a'.upper() }}"), {}, pool)  # a new process imports Jinja
    with monkeypatch.context() as patch:
        patch.setattr(render_jinja, "seconds", 0.4)
        rendering = asyncio.create_task(render(parse_template(source), {}, pool))
        turns = 0
        while not rendering.done():
            await asyncio.sleep(0 if turns < 100 else 0.001)
            turns += 1
    with pytest.raises((ComponentError, WorkLimitError), match="The template"):
        await rendering
    assert turns > 2
