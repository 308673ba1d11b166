"""Jinja templates that are short to write and long to render."""

from typing import Any

from tests.fakes.canvas import canvas, node, text
from tests.harness.noisy.attack import Attack, by_canvas

LONG = '{% set s="a"*1500000 %}{% set p="ab"+"a"*700000 %}'
SPACES = '{% set s=" "*1900000 %}'
SOURCES: dict[str, tuple[str, str]] = {
    "jinja-rfind": ("search from the end", LONG + "{{ s.rfind(p) }}"),
    "jinja-find": ("search from the start", LONG + "{{ s.find(p) }}{{ s.count(p) }}{{ p in s }}"),
    "jinja-rsplit": ("split from the end", LONG + "{{ s.rsplit(p)|length }}{{ s.rpartition(p)|length }}"),
    "jinja-strip": (
        "strip a long set of characters",
        '{% set s="a"*1900000 %}{% set p="b"*1900000+"a" %}{{ s.strip(p)|length }}{{ s|trim(p)|length }}',
    ),
    "jinja-replace": ("replace that grows", '{{ ("a"*20000).replace("a", "b"*20000)|length }}'),
    "jinja-replaces": (
        "replace ten times",
        '{% set ns=namespace(s="a") %}{% for i in range(40) %}{% set ns.s=ns.s|replace("a","aa") %}{% endfor %}'
        "{{ ns.s }}",
    ),
    "jinja-format": ("format widths", '{{ "%1999999999d"|format(1) }}{{ "{:>1999999999}".format(1) }}'),
    "jinja-multiply": ("multiply texts and lists", '{{ ("a"*2000000000)|length }}{{ ([1]*2000000000)|length }}'),
    "jinja-power": ("powers of powers", "{{ 9**9**9 }}{{ (2**99999)**999 }}{{ 1 * (10**5000) }}"),
    "jinja-ranges": (
        "nested ranges",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}"
        "{% endfor %}",
    ),
    "jinja-recursion": (
        "a macro that calls itself",
        "{% macro m(n) %}{{ m(n+1) }}{{ m(n+1) }}{% endmacro %}{{ m(0) }}",
    ),
    "jinja-loop-recursion": (
        "a recursive loop",
        "{% for i in range(100) recursive %}{{ loop(range(100)) }}{% endfor %}",
    ),
    "jinja-join": ("joins of joins", '{{ (range(9999)|join("a"*9999))|length }}'),
    "jinja-filters": (
        "filters with long arguments",
        '{{ ("a "*900000)|wordwrap(1)|length }}{{ ("a\\n"*900000)|indent(900000)|length }}'
        '{{ "a"|center(1999999999)|length }}{{ ("http://a.b "*90000)|urlize|length }}',
    ),
    "jinja-sorts": (
        "sorts and groups of sorted lists",
        "{% set l=range(9999)|list %}{% for i in range(9999) %}{{ l|sort(reverse=true)|unique|list|length }}"
        '{{ l|groupby("real")|length }}{% endfor %}',
    ),
    "jinja-map": (
        "long chains of map and select",
        "{% set l=range(9999)|list %}{{ l" + "|map('string')|select|map('int')|list" * 400 + "|length }}",
    ),
    "jinja-titles": (
        "changes of letters of a long text",
        '{% set s="ß"*1900000 %}{{ s' + "|upper|lower|title" * 300 + "|length }}",
    ),
    "jinja-spaces": ("white space at both ends", SPACES + "{{ (s+'a'+s)|trim|length }}{{ s|striptags|length }}"),
    "jinja-tags": ("unclosed tags", '{{ ("<"*1900000)|striptags|length }}{{ ("<a "*600000)|striptags|length }}'),
    "jinja-json": ("JSON of JSON", "{% set ns=namespace(s='\"') %}" + "{% set ns.s=ns.s|tojson %}" * 60 + "{{ ns.s }}"),
    "jinja-deep": ("an expression nested 20,000 deep", "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}"),
    "jinja-blocks": ("5,000 nested conditions", "{% if 1 %}" * 5000 + "{% endif %}" * 5000),
    "jinja-sum": ("a sum of a thousand terms", "{{ " + "+".join(["1"] * 40_000) + " }}"),
    "jinja-attributes": ("a chain of attributes", "{{ a" + ".b" * 40_000 + " }}"),
    "jinja-tests": ("comparisons of equal lists", "{% set l=[range(9999)|list]*999 %}" + "{{ l == l }}" * 999),
    "jinja-slices": (
        "slices and batches",
        "{% set l=range(9999)|list %}{% for i in range(9999) %}{{ l|slice(9999)|list|length }}"
        "{{ l|batch(1)|list|length }}{% endfor %}",
    ),
}


def _template(source: str) -> dict[str, Any]:
    return canvas({"t": text(["m"], source), "m": node("Message", {"content": ["{t@result}"]})})


def _many_templates() -> dict[str, Any]:
    alternatives = ["{{1}}" * 18_000 for _ in range(100)]
    return canvas({"m": node("Message", {"content": alternatives})})


def _many_nodes() -> dict[str, Any]:
    components = {f"t{n}": text([f"t{n + 1}"], "{{ 1 }}" * 300) for n in range(500)}
    return canvas({**components, "t500": node("Message", {"content": ["done"]})})


def _by_template(name: str, summary: str, source: str) -> Attack:
    return by_canvas(name, f"a template: {summary}", lambda: _template(source))


ATTACKS: list[Attack] = [
    *(_by_template(name, summary, source) for name, (summary, source) in SOURCES.items()),
    by_canvas("jinja-many", "100 alternatives of 90 KB, which are checked", _many_templates),
    by_canvas("jinja-nodes", "500 nodes with a template each", _many_nodes),
]
