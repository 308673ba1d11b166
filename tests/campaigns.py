"""Long tests and reports: ``python -m tests.campaigns NAME [OPTION …]``. ``make services`` installs what they need."""

import ast
import os
import runpy
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAMS = {
    "agreement": "agreement tests/fixtures/conformance",
    "conformance": "conformance tests/fixtures/conformance",
    "corpus": "corpus tests/fixtures/canvas",
    "crash": "crash tests/fixtures/crash examples",
    "deaths": "deaths",
    "elasticsearch": "elasticsearch_node .venv/bin/pytest -m elasticsearch tests/integrations/elasticsearch",
    "failover": "failover",
    "fuzz-api": "api_fuzz",
    "versions": "versions oldest newest",
    "noisy": "noisy",
    "pictures": "page_pictures docs",
    "real-model": "real_model",
    "retrieval": "retrieval keywords wordllama",
    "templates": "templates tests/fixtures/canvas",
    "workers": "workers",
}
"""The modules of `tests.harness`, whose docstrings name their options, with the options of a call without any."""

REPEATED = {
    "mutations": ("MUTATIONS", "5000", "tests/test_mutations.py"),
    "poisoned-rows": ("MUTATIONS", "5000", "tests/checkpoints/test_poisoned_rows.py"),
    "properties": ("EXAMPLES", "1000", "tests -m 'hypothesis or generated'"),
    "regions": ("REGIONS", "300", "tests/test_regions.py"),
    "takeovers": ("STOPS", "50", "tests/test_takeovers.py"),
}
"""Tests that ``make test-all`` plays with a small number: its variable, a large one, and what pytest gets."""


def describe(name: str) -> str:
    """Return what a campaign does."""
    if name in REPEATED:
        variable, number, tests = REPEATED[name]
        return f"Run {tests} with {variable}={number}, or another number."
    spec = find_spec(f"tests.harness.{PROGRAMS[name].split()[0]}")
    source = Path(spec.origin) if spec and spec.origin else Path()
    text = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


def main(name: str = "--help", *options: str) -> int:
    """Play a campaign, or list all of them."""
    if name in PROGRAMS:
        module, *defaults = PROGRAMS[name].split()
        sys.argv = [f"python -m tests.campaigns {name}", *(options or defaults)]
        runpy.run_module(f"tests.harness.{module}", run_name="__main__")
        return 0
    if name in REPEATED:
        variable, number, tests = REPEATED[name]
        os.environ[variable], *more = options or (number,)
        return pytest.main(["--timeout", "0", *shlex.split(tests), *more])
    sys.stdout.write(f"{__doc__}\n\n")
    for each in sorted([*PROGRAMS, *REPEATED]):
        sys.stdout.write(f"{each}: {describe(each)}\n")
    return 0 if name in ("-h", "--help") else 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
