import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ragflow_lg.server import page
from ragflow_lg.server.page.run_file.run_file_page import join_scripts

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


@pytest.mark.parametrize("name", ["main", "run_file"])
def test_the_page_can_be_joined(name: str) -> None:
    script = join_scripts(SCRIPTS / f"{name}.js")
    assert script.count('modules["vendor/preact.js"] = ') == 1
