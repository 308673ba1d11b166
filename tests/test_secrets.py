"""Secrets of a canvas, in every place that holds one, are in none of the outputs that others may read."""

import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteAgent
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import make_redacted_view
from ragflow_lg.dsl.redaction import SECRET, Redactor, is_secret_name
from ragflow_lg.dsl_compiler import inspect_canvas
from ragflow_lg.integrations.eject.package import eject_canvas
from ragflow_lg.integrations.migration.agent_files import build_agent_file
from tests.fakes.canvas import canvas, node, plan_of
from tests.harness.rows import each_row

HIDDEN = "Wh5-hidden-Value.123"


def invoke(**params: Any) -> dict[str, Any]:
    call: dict[str, Any] = {"url": "https://h.example/", "method": "post", "headers": "{}", "variables": [], **params}
    return canvas({"Invoke:I": node("Invoke", call)})


def begin(**security: Any) -> dict[str, Any]:
    return canvas({"begin": node("Begin", {"mode": "Webhook", "security": security})})


def variable(**fields: Any) -> dict[str, Any]:
    return invoke(variables=[{"ref": "", **fields}])


PLACES: dict[str, dict[str, Any]] = {
    "webhook token": begin(auth_type="token", token={"token_header": "X-T", "token_value": HIDDEN}),
    "webhook signature": begin(auth_type="hmac", hmac={"secret": HIDDEN}),
    "webhook jwt": begin(auth_type="jwt", jwt={"secret": HIDDEN, "algorithm": "HS256"}),
    "webhook password": begin(auth_type="basic", basic_auth={"username": "u", "password": HIDDEN}),
    "pair of key and value": variable(key="password", value=HIDDEN),
    "pair in other words": variable(key="clientSecret", value=HIDDEN),
    **{f"pair of {key} and value": variable(key=key, value=HIDDEN) for key in ("token", "Token2", "pat", "auth_code")},
    "field and value": variable(field="password", value=HIDDEN),
    "authorization header": invoke(headers=json.dumps({"Authorization": f"Bearer {HIDDEN}"})),
    "cookie header": invoke(headers=json.dumps({"Cookie": HIDDEN})),
    "header in a list": invoke(headers=json.dumps({"more": [{"name": "X-Api-Key", "value": HIDDEN}]})),
    "password in an address": invoke(url=f"https://u:{HIDDEN}@h.example/"),
    "token in an address": invoke(url=f"https://h.example/?a=1&token={HIDDEN}"),
    "signature in an address": invoke(url=f"https://h.example/?sig={HIDDEN}&b=2"),
    **{
        f"variable {name}": {
            **invoke(),
            "globals": {"sys.query": "", f"env.{name}": HIDDEN},
            "variables": {name: {"name": name, "type": "string", "value": HIDDEN}},
        }
        for name in (
            *("dsn", "connection_string", "connectionString", "pin", "user_pin", "otp", "passphrase", "client_secret"),
            *("private_key", "access_key", "sas", "sas_token", "passcode", "totp", "jwt", "db_password_text"),
        )
    },
    "declared password of a tool": canvas(
        {"ExeSQL:0": node("ExeSQL", {"sql": "SELECT 1", "password": HIDDEN, "host": "h", "database": "d"})}
    ),
}


def eject(document: dict[str, Any]) -> str:
    return str(eject_canvas(inspect_canvas(document, load_catalog()), name="Canvas", version="1").files)


def pull(document: dict[str, Any]) -> str:
    file = build_agent_file(RemoteAgent("a1", "A", document))
    return file.text


def view_params(document: dict[str, Any]) -> str:
    """Return what events, logs, traces and errors show of params and variables."""
    view, plan = make_redacted_view(plan_of(document), ()), plan_of(document)
    params = [node.params.model_dump(mode="json", by_alias=True) for node in plan.nodes.values()]
    return str(view.value([params, dict(plan.globals)]))


def write_texts(document: dict[str, Any]) -> str:
    """Return texts in which a service, a model or an error repeats the secret: prompts, records, run files, reports."""
    redactor = plan_of(document).redactor
    return redactor.text(f"the service said {HIDDEN!r}") + str(redactor.pieces([HIDDEN[:5], HIDDEN[5:]]))


def write_unknown(document: dict[str, Any]) -> str:
    """Return what a redactor that knows no canvas writes: recordings of requests, and log lines with a document."""
    redactor = Redactor()
    return redactor.text(json.dumps(document)) + str(redactor.value(document))


def learn_document(document: dict[str, Any]) -> str:
    """Return what a run file writes, which knows the document only."""
    redactor = Redactor()
    redactor.learn_from(document)
    return redactor.text(f"repeated: {HIDDEN}")


@each_row("write", [eject, pull, view_params, write_texts, write_unknown, learn_document])
@each_row("place", PLACES)
def test_no_output_has_a_secret(place: str, write: Callable[[dict[str, Any]], str]) -> None:
    written = write(PLACES[place])
    assert written
    assert HIDDEN not in written


ORDINARY = (
    "token_count max_tokens tokens pinned spin pin_count keywords optional opt_in opt key_value value text "
    "token_header password_hint sass dsname shopping connection string otps_sent primary_keys keyboard "
    "jwt_algorithm auth_type"
)


@each_row("name", ORDINARY.split())
def test_ordinary_names_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)
    values: list[dict[str, Any]] = [{name: "shown"}, {"key": name, "value": "shown"}]
    for value in values:
        assert Redactor().value(value) == value
    text = json.dumps({"name": name, "value": "shown"})
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "text", ['{"value": "%s", "name": "password"}', '{"name": "dsn", "type": "line", "value": "%s"}']
)
def test_a_value_in_a_text_has_the_name_beside_it(text: str) -> None:
    assert Redactor().text(text % HIDDEN) == text % "***"


def test_a_value_of_another_object_does_not() -> None:
    text = '[{"name": "password"}, {"value": "shown"}]'
    assert Redactor().text(text) == text


class Licensed(BaseModel):
    """A component outside of this package whose parameter has an ordinary name."""

    licence: Annotated[str, SECRET] = HIDDEN
    place: str = "a-place-to-show"


def test_components_declare_secrets_whatever_their_names() -> None:
    redactor = Redactor()
    redactor.learn_from([Licensed()])
    assert redactor.text(f"{HIDDEN} a-place-to-show") == "*** a-place-to-show"
