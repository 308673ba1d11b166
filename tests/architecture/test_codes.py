"""The stable codes: unique, used, and explained in ``docs/diagnostics.md``."""

import ast
import json
import pickle
import re
from typing import Any

from ragflow_lg.base import errors
from ragflow_lg.base.diagnostics import ADVICE, CODES, Diagnostic
from ragflow_lg.base.errors import BusyError, QuotaError, RagflowLgError, RequestError
from ragflow_lg.component.parameter_help import parameters_of
from ragflow_lg.server.assembly import health_checks
from ragflow_lg.server.assembly.canvas_needs import need_labels
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.http.native import problem_details
from ragflow_lg.server.settings import Settings
from tests.architecture.sources import ROOT, sources
from tests.harness.rows import each_row

SCRIPTS = ROOT / "server" / "page" / "js"
PAGE = (ROOT / "docs" / "diagnostics.md").read_text("utf-8")
ROW = re.compile(
    r"^\| `(?P<code>[a-z-]+)` \| (?P<meaning>[^|]+) \| (?P<cause>[^|]+) \| (?P<fix>[^|]+) \|$", re.MULTILINE
)


def error_classes(base: type[RagflowLgError] = RagflowLgError) -> list[type[RagflowLgError]]:
    """Return the whole tree, without what tests derive from it."""
    own = [child for child in base.__subclasses__() if child.__module__.startswith("ragflow_lg.")]
    return [base, *(found for child in own for found in error_classes(child))]


def example(kind: type[RagflowLgError]) -> RagflowLgError:
    """Make an error of each class, as the code makes it."""
    arguments: dict[str, tuple[Any, ...]] = {
        "CompileError": ([Diagnostic("json-invalid", "error", "", "It ends too early.")],),
        "CodeLimitError": ("It took too long.", "timeout_s"),
        "NodeTimeoutError": ("LLM:0", 2.5),
        "QuotaError": ("tokens_day", 100, "tenant", "It is renewed at 00:00 UTC."),
        "RunCancelled": ("LLM:0",),
        "AnswerError": ({"size": "It is required."},),
        "UndeclaredTargetError": ("Switch:0", "Message:1"),
    }
    return kind(*arguments.get(kind.__name__, ("It failed.",)))


def test_the_page_lists_every_code_of_the_compiler_with_its_meaning() -> None:
    table = PAGE.partition("## Diagnostics")[2].partition("## Errors")[0]
    rows = {row["code"]: row["meaning"].strip() for row in ROW.finditer(table)}
    assert rows == CODES
    assert len(ROW.findall(table)) == len(CODES)


def test_the_page_lists_every_class_of_error() -> None:
    rows = [row["code"] for row in ROW.finditer(PAGE.partition("## Errors")[2])]
    assert sorted(rows) == sorted(kind.code for kind in error_classes())


@each_row("row", ROW.finditer(PAGE))
def test_every_row_tells_cause_and_fix(row: re.Match[str]) -> None:
    assert row["cause"].strip().endswith(".")
    assert row["fix"].strip().endswith(".")


def test_every_code_of_the_compiler_is_reported_somewhere() -> None:
    texts = "".join(source.text for source in sources() if source.path.name != "diagnostics.py")
    assert [code for code in CODES if f'"{code}"' not in texts] == []


def test_error_codes_are_unique() -> None:
    codes = [kind.code for kind in error_classes()]
    assert sorted(codes) == sorted(set(codes))


def test_all_errors_are_in_the_one_tree() -> None:
    defined = {
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert {kind.__name__ for kind in error_classes()} == defined


@each_row("kind", error_classes())
def test_errors_survive_pickling(kind: type[RagflowLgError]) -> None:
    error = example(kind)
    revived = pickle.loads(pickle.dumps(error))
    assert type(revived) is kind
    assert (str(revived), vars(revived)) == (str(error), vars(error))


def test_there_is_advice_for_every_code() -> None:
    assert set(ADVICE) == set(CODES)
    assert all(advice.endswith(".") for advice in ADVICE.values())


def chinese_texts() -> dict[str, dict[str, str]]:
    """Return the page's texts for what the server sends, by kind and code."""
    text = (SCRIPTS / "server_texts.js").read_text("utf-8")
    kinds = re.findall(r"^  (\w+): \{\n(.*?)^  \},$", text, re.MULTILINE | re.DOTALL)
    return {kind: dict(re.findall(r'^    "?([\w =-]+)"?: "(.+)",$', part, re.MULTILINE)) for kind, part in kinds}


def problem_codes() -> set[str]:
    """Return the codes of all refusals and failures: names in the native API, numbers in RAGFlow's."""
    calls = [
        node
        for source in sources("server")
        if "openai" not in source.path.parts
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "RequestError"
    ]
    given = [*(call.args[1] for call in calls if len(call.args) > 1)]
    given += [word.value for call in calls for word in call.keywords if word.arg == "reason"]
    codes = {str(value.value) for value in given if isinstance(value, ast.Constant)}
    busy = QuotaError("tokens_day", 1, "tenant", "")
    codes |= {str(RequestError("").number), str(BusyError("").number), busy.reason}
    codes |= {problem_details.to_problem(example(kind)).code for kind in error_classes()}
    return codes | set(problem_details.CODES.values())


async def test_the_page_has_a_chinese_text_for_everything_that_the_server_sends() -> None:
    texts = chinese_texts()
    assert texts["findings"].keys() == CODES.keys()
    assert texts["problems"].keys() == problem_codes()
    assert texts["needs"].keys() == need_labels().keys()
    assert texts["checks"].keys() == (await health_checks.check_health(Settings(checkpoints=":memory:"))).keys()
    known = {parameter.name for spec in catalog() for parameter in parameters_of(spec.params)}
    assert texts["parameters"].keys() <= known
    assert all(re.search(r"[\u4e00-\u9fff]", text) for part in texts.values() for text in part.values())


def test_the_page_knows_how_services_fail() -> None:
    words = [code for code in chinese_texts()["failures"] if not code.isdigit()]
    asked = re.search(
        r'^const FAILURE = new RegExp\("(.+)"\);$', (SCRIPTS / "turn_end.js").read_text("utf-8"), re.MULTILINE
    )
    assert asked is not None
    assert asked[1].split("|") == words
    texts = "".join(source.text for source in sources()).replace("{refused} = ", "context_tokens = ")
    assert [each for each in words if each not in texts] == []


def test_the_page_has_a_chinese_text_for_the_help_of_every_parameter() -> None:
    lines = (SCRIPTS / "help_texts.js").read_text("utf-8").partition(" = {")[2].rpartition(",\n};")[0]
    texts = json.loads(f"{{{lines}}}")
    own = [spec.params for spec in catalog() if spec.params.__module__.startswith("ragflow_lg.")]
    assert texts.keys() == {parameter.about for params in own for parameter in parameters_of(params)} - {""}
    assert all(re.search(r"[\u4e00-\u9fff]", text) for text in texts.values())
