import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server import page
from ragflow_lg.server.assembly.library import load_canvas
from ragflow_lg.server.page import run_file
from ragflow_lg.server.page.joined_scripts import join_scripts
from ragflow_lg.server.page.run_file import LEFT_OUT, SessionReader, SharedValues
from tests.fakes.services import fake_services
from tests.server.http.app_server import ECHO, FORM

KEY = "sk-abcdefghijklmnopqrstuvwxyz123456"
LONG = "x" * 50_000


async def record(dsl: dict[str, Any], *queries: str, secrets: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the record of a session in which a canvas has answered some questions."""
    compiled = load_canvas(json.dumps(dsl).encode())
    async with open_store("memory://") as store:
        runner = Runner(compiled, fake_services(clock=SystemClock()), store=store)
        for query in queries:
            async for _ in runner.start("anna", {"query": query}):
                pass
        return await SessionReader(compiled, store, "anna", secrets).read("Helper", {"light": f"<svg>{KEY}</svg>"})


def value(shown: dict[str, Any], step: int, *path: str) -> Any:
    number: Any = shown["steps"][step]
    for name in path:
        number = number[name]
    return shown["values"][number]


async def test_every_step_has_its_state_and_the_nodes_that_run_next() -> None:
    shown = await record(ECHO, "one", "two")
    assert [(step["turn"], step["next"]) for step in shown["steps"]] == [
        (turn, nodes) for turn in (1, 2) for nodes in (["begin"], ["Message:0"], [], [])
    ]
    assert value(shown, 3, "outputs", "Message:0", "content") == "You said one"
    assert value(shown, 7, "outputs", "Message:0", "content") == "You said two"
    assert value(shown, 5, "globals", "sys.query") == "two"
    assert [(m["role"], shown["values"][m["text"]]) for m in shown["history"]] == [
        ("user", "one"),
        ("assistant", "You said one"),
        ("user", "two"),
        ("assistant", "You said two"),
    ]
    assert [step["history"] for step in shown["steps"]] == [0, 1, 1, 2, 2, 3, 3, 4]
    assert [run["status"] for run in shown["runs"]] == ["succeeded", "succeeded"]
    assert shown["nodes"]["Message:0"] == {"title": "Message:0", "type": "Message", "parent": ""}


async def test_a_form_that_waits_is_named() -> None:
    shown = await record(FORM, "one")
    assert (shown["steps"][-1]["waiting"], shown["runs"][-1]["status"]) == (["UserFillUp:0"], "waiting")


async def test_secrets_are_taken_out_everywhere() -> None:
    names = {"api_key": "hunter-2-hunter", "place": "Bremen"}
    dsl = {**ECHO, "variables": {name: {"name": name, "value": text, "type": "string"} for name, text in names.items()}}
    shown = await record(dsl, f"{KEY} and hunter-2-hunter and plain-word-secret", secrets=("plain-word-secret",))
    text = json.dumps(shown)
    assert not [secret for secret in (KEY, "hunter-2-hunter", "plain-word-secret") if secret in text]
    assert (value(shown, 3, "globals", "env.api_key"), value(shown, 3, "globals", "env.place")) == ("***", "Bremen")
    assert shown["drawings"] == {"light": "<svg>***</svg>"}


async def test_long_values_are_cut_and_counted() -> None:
    shown = await record(ECHO, LONG)
    assert value(shown, 3, "globals", "sys.query").endswith("… (50,000 characters)")
    assert shown["values_cut"] >= 2
    assert len(json.dumps(shown)) < 100_000


async def test_old_steps_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "MAX_STEPS", 4)
    shown = await record(ECHO, "one", "two")
    assert shown["steps_left_out"] > 0
    assert value(shown, -1, "outputs", "Message:0", "content") == "You said two"


async def test_a_session_without_steps_is_an_error() -> None:
    with pytest.raises(CheckpointError):
        await record(ECHO)


def test_values_are_stored_once_up_to_a_size() -> None:
    values = SharedValues(RedactedView(Redactor()), max_bytes=32)
    assert [values.add(value, "a") for value in ("x" * 20, [1], "x" * 20, [1])] == [0, 1, 0, 1]
    assert (values.add("y" * 30, "a"), values.values[2], values.cut) == (2, LEFT_OUT, 1)
    assert values.values[values.add("z", "password")] == "***"


SCRIPTS = Path(page.__file__).parent / "js"


def write(folder: Path, **modules: str) -> Path:
    (folder / "js").mkdir()
    for name, text in modules.items():
        (folder / "js" / f"{name}.js").write_text(text)
    return folder / "js" / "main.js"


def test_modules_run_once_and_share_what_they_export(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        main='import whole, { a as b, add } from "./one.js";\nimport {\n  two,\n} from "./two.js";\n'
        "console.log(JSON.stringify([whole, b, add(1), two]));\n",
        one="export const a = 1;\nexport async function later() {}\nexport class C {}\n"
        'export function add(n) { return n + a; }\nconst d = "whole";export{d as default,C as K};\n',
        two='import { a } from "./one.js";\nexport const two = a + 1;\n',
    )
    script = join_scripts(main)
    assert script == join_scripts(main)
    assert script.count("async function later") == 1
    if node := shutil.which("node"):
        shown = subprocess.run([node, "-e", script], capture_output=True, text=True, check=True).stdout
        assert json.loads(shown) == ["whole", 1, 2, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('export * from "./one.js";', "cannot be joined"),
        ('import * as one from "./one.js";', "cannot be joined"),
        ("export default 1;", "cannot be joined"),
        ('import { a } from "./main.js";', "imports itself"),
    ],
)
def test_other_forms_and_circles_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        join_scripts(write(tmp_path, main=f'{text}\nimport {{ a }} from "./one.js";\n', one="export const a = 1;\n"))


@pytest.mark.parametrize("name", ["main", "embedded", "shared", "reference", "run_file"])
def test_the_page_can_be_joined(name: str) -> None:
    assert join_scripts(SCRIPTS / f"{name}.js").count('modules["vendor/preact.js"] = ') == 1
