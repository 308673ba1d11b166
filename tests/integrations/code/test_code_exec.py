"""CodeExec as a node and as a tool; tests/integrations/code runs real programs."""

from typing import Any

from ragflow_lg.base.errors import RagflowLgError, ServiceError
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.integrations.code.code_exec import Arguments, code_exec
from ragflow_lg.integrations.code.code_settings import CodeLimits, exceeded
from ragflow_lg.integrations.code.programs import CodeResult, CodeSandbox
from ragflow_lg.services.artifacts import Artifact, StoredArtifact
from ragflow_lg.services.services import Services
from tests.fakes.canvas import canvas, diagnostics_of, node
from tests.fakes.code import ScriptedSandbox
from tests.fakes.counted_workers import CountedWorkers
from tests.fakes.policies import Canvases
from tests.fakes.regions import answer_of, out
from tests.fakes.run import Result, run_component
from tests.fakes.sandbox_service import NamedArtifacts
from tests.fakes.services import fake_services
from tests.harness.rows import each_row

ONE = {"r": {"type": "Any"}}


async def run(sandbox: ScriptedSandbox, script: str = "x", services: Services | None = None, **options: Any) -> Result:
    """Run a node with one output ``r``."""
    params = {"script": script, "outputs": ONE, **options.pop("params", {})}
    services = services or fake_services(integrations={CodeSandbox: sandbox}, artifacts=NamedArtifacts())
    return await run_component(code_exec, params, services=services, **options)


async def test_arguments_are_the_values_of_references() -> None:
    sandbox = ScriptedSandbox(CodeResult(has_value=True, value=3))
    arguments = {"a": "begin@list", "b": "sys.query", "c": "", "d": None, "e": "{begin@list.0}"}
    result = await run(
        sandbox,
        params={"lang": "nodejs", "arguments": arguments},
        outputs={"begin": {"list": [1]}},
        globals={"sys.query": "q"},
    )
    assert (result.error, result.outputs["r"], result.outputs["_ERROR"]) == (None, 3, "")
    (request,) = sandbox.requests
    assert (request.language, dict(request.arguments)) == (
        "javascript",
        {"a": [1], "b": "q", "c": None, "d": None, "e": 1},
    )
    assert result.inputs == {"lang": "nodejs", "script": "x"}


async def test_references_in_the_script_are_filled_in_but_not_names_of_programs() -> None:
    sandbox = ScriptedSandbox(CodeResult(has_value=True))
    script = 'f"{item} {sys.argv} {n} {{sys.query}}" + "{begin@a}"'
    await run(sandbox, script, outputs={"begin": {"a": "A"}}, globals={"sys.query": "q"})
    assert sandbox.requests[0].code == 'f"{item} {sys.argv} {n} q" + "A"'


@each_row(
    ("result", "outputs"),
    [
        (CodeResult("[1]", "warning"), {"r": [1], "_ERROR": "", "actual_type": "Array<Number>"}),
        (CodeResult("", ""), {"r": "", "content": "", "actual_type": "String"}),
        (CodeResult("x", "", 0, True, None), {"r": None, "content": "", "actual_type": "Null"}),
    ],
)
async def test_the_value_is_returned_or_printed(result: CodeResult, outputs: dict[str, Any]) -> None:
    node = await run(ScriptedSandbox(result))
    assert node.error is None
    assert {name: node.outputs[name] for name in outputs} == outputs


async def test_with_old_values_a_large_value_is_read_in_a_worker() -> None:
    value: Any = ["x"] * 20_000
    sandbox, workers = ScriptedSandbox(CodeResult(has_value=True, value=value)), CountedWorkers()
    services = fake_services(integrations={CodeSandbox: sandbox}, workers=workers)
    components = {"code": node("CodeExec", {"script": "x", "outputs": ONE}, ["out"]), **out("{code@actual_type}")}
    deployment = Canvases(compatibility=Compatibility(old_values=True))
    assert await answer_of(components, services=services, deployment=deployment) == "Array<String>"
    assert workers.names == ["code_outputs"]


@each_row(
    ("sandbox", "error"),
    [
        (ScriptedSandbox(CodeResult("", "Oh no", 1)), "Oh no"),
        (ScriptedSandbox(error=ServiceError("gone")), "Provider system execution failed: gone"),
        (ScriptedSandbox(error=exceeded(CodeLimits(), "timeout_s")), "The code did not finish within 10 s"),
    ],
)
async def test_failures(sandbox: ScriptedSandbox, error: str) -> None:
    node = await run(sandbox)
    assert node.error is not None
    assert node.error.startswith(error)
    assert node.outputs["r"] is None


async def test_without_a_sandbox_every_program_is_refused() -> None:
    node = await run(ScriptedSandbox(), services=fake_services())
    assert node.error == "This program has no CodeSandbox. Pass Services(integrations={CodeSandbox: …})."


IMAGE = Artifact("a.png", "image/png", b"x")
TABLE = Artifact("t.csv", "text/csv", b"1,2")


async def test_artifacts_become_links_and_texts() -> None:
    node = await run(ScriptedSandbox(CodeResult("", "", 0, True, "v", (IMAGE, TABLE))))
    image, table = (f"/api/v1/documents/artifact/{n:032x}.{e}?session_id=task-1" for n, e in ((1, "png"), (2, "csv")))
    assert node.outputs["attachments"] == [f"![a.png]({image})", f"[Download t.csv]({table})"]
    assert node.outputs["_ARTIFACTS"] == [
        {"name": "a.png", "url": image, "mime_type": "image/png", "size": 1},
        {"name": "t.csv", "url": table, "mime_type": "text/csv", "size": 3},
    ]
    assert node.outputs["content"] == (
        "v\n\nattachment_count: 2\n\nattachment1 (image): a.png\n[parsed a.png]"
        "\n\nattachment2 (csv): t.csv\n[parsed t.csv]"
    )


class _Full:
    async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
        raise RagflowLgError("The folder is full.")

    async def find(self, address: str) -> bytes | None:
        return None


async def test_an_artifact_that_cannot_be_kept_does_not_fail_the_node() -> None:
    result = CodeResult("", "", 0, True, "v", (IMAGE,))
    services = fake_services(integrations={CodeSandbox: ScriptedSandbox(result)}, artifacts=_Full())
    node = await run(ScriptedSandbox(), services=services)
    assert node.error is None
    assert "The file cannot be downloaded: The folder is full." in node.outputs["content"]
    result = CodeResult("", "", 0, True, "v", (IMAGE, TABLE))
    node = await run(ScriptedSandbox(), services=fake_services(integrations={CodeSandbox: ScriptedSandbox(result)}))
    assert node.outputs["attachments"] == ["a.png", "t.csv"]
    assert "attachment2 (csv): t.csv\n1,2" in node.outputs["content"]


def test_what_the_model_sees() -> None:
    schema = Arguments.model_json_schema()
    assert schema["properties"]["lang"]["enum"] == ["python", "javascript"]
    assert set(schema["properties"]) == {"lang", "script"}


@each_row(
    ("outputs", "fault"),
    [
        ({"r": {"type": "Number"}}, ""),
        ({}, "No output is declared"),
        ({"r": {"type": "Array<Text>"}}, "declared as Array<Text>, which is no type"),
    ],
)
def test_the_check_reports_outputs_that_no_value_fits(outputs: dict[str, Any], fault: str) -> None:
    params = {"script": "def main(): return 1", "outputs": outputs}
    found = diagnostics_of(canvas({"a": node("CodeExec", params)}), "code-outputs")
    assert [bool(fault)] == [bool(found)]
    assert all(fault in one.message and one.pointer == "/components/a/obj/params/outputs" for one in found)


def test_references_find_dotted_outputs() -> None:
    code = {"script": "def main(): return 1", "outputs": {"user.name": {"type": "String"}}}
    graph = canvas({"a": node("CodeExec", code), "m": node("Message", {"content": ["{a@user.name} {a@other}"]})})
    unknown = [one.message for one in diagnostics_of(graph, "reference-unknown-output")]
    assert len(unknown) == 1
    assert "other" in unknown[0]
