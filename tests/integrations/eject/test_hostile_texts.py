import ast
import keyword
import tomllib
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import inspect_canvas
from ragflow_lg.integrations.eject.package import EjectedPackage, eject_canvas
from tests.fakes.canvas import canvas, node

PIECES = (
    *('"', "'", '"""', "'''", "\\", "\n", "\r", "\u2028", "{", "}", "#", "import os", "\x00", "\ud83d", "\u202e"),
    *("os.system('x')", "__import__", ")", "]", ",", "f", "title", "{sys.query}", "\t", "é", "日本", "class", "`", "|"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=60)
# A package of these two canvases uses every name that the generator may write: the second one reads a secret.
PLAIN_NAMES = ("plain", "AUTHORIZATION")
SAFE_NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,12}", fullmatch=True)


def hostile(title: str, prompt: str, name: str, id_: str) -> dict[str, Any]:
    """Return a canvas with the texts wherever a canvas has texts."""
    llm, switch, message = f"LLM:{id_}", f"Switch:{id_}", f"Message:{id_}"
    item = {"cpn_id": f"{llm}@content", "operator": "contains", "value": prompt}
    cases = [{"logical_operator": "and", "items": [item], "to": [message]}]
    components = {
        "begin": node("Begin", {"inputs": {name: {"name": title, "type": "line", "optional": True}}}, [llm]),
        llm: node(
            "LLM", {"llm_id": title, "sys_prompt": prompt, "prompts": [{"role": "user", "content": title}]}, [switch]
        ),
        switch: node("Switch", {"conditions": cases, "end_cpn_ids": [message]}, [message]),
        message: node("Message", {"content": [prompt + title]}),
    }
    document = canvas(components, variables={"s": {"name": name, "type": "string", "value": prompt}})
    titles: list[Any] = [
        {"id": key, "data": {"name": f"{title} {key}", "form": {}, "label": "x"}} for key in components
    ]
    return {"title": title, "dsl": {**document, "graph": {"nodes": titles, "edges": []}}}


def eject(document: dict[str, Any]) -> EjectedPackage | None:
    checked = inspect_canvas(document, load_catalog())
    return None if checked.plan is None else eject_canvas(checked, version="1.0")


def identifiers(package: EjectedPackage | None) -> set[str]:
    """Return all names in the code of a package, apart from those of its nodes."""
    assert package is not None
    found: set[str] = set()
    for path, text in package.files.items():
        for part in ast.walk(ast.parse(text)) if path.endswith(".py") else ():
            values = [getattr(part, field, None) for field in ("id", "attr", "name", "module", "arg", "asname")]
            found |= {name for value in values if isinstance(value, str) for name in value.split(".")}
    names = package.names.values()
    return found - {*names, package.name}


@given(TEXTS, TEXTS, TEXTS, SAFE_NAMES)
@example('"""\nimport os\n"""', "\\", '")', "A")
@example("", '"', "AUTHORIZATION", "A")
@example("'''\\", '{"a": 1}\n"""', "{x}", "class")
def test_texts_stay_literals(title: str, prompt: str, name: str, id_: str) -> None:
    package = eject(hostile(title, prompt, name, id_))
    if package is None:
        return
    for function in package.names.values():
        assert function.isidentifier()
        assert not keyword.iskeyword(function)
    expected = [identifiers(eject(hostile("plain", "{sys.query} a", plain, "Plain"))) for plain in PLAIN_NAMES]
    assert identifiers(package) <= set().union(*expected)
    tomllib.loads(package.files["pyproject.toml"])


@given(TEXTS)
def test_a_prompt_is_read_back_as_it_was(prompt: str) -> None:
    document = hostile("Plain", prompt, "plain", "A")
    package = eject(document)
    if package is None:
        return
    tree = ast.parse(package.files[f"{package.name}/nodes/{package.names['LLM:A']}.py"])
    (call,) = [part for part in ast.walk(tree) if isinstance(part, ast.Call) and ast.unparse(part.func) == "Node"]
    params = ast.literal_eval(call.args[2])
    assert params.get("sys_prompt", "") == prompt
