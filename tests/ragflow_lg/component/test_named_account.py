"""Accounts in the canvas, or in the settings under a name."""

import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.component.named_account import AccountText, NamedAccount
from ragflow_lg.component.spec import ComponentParams, Requirement

ACCOUNT = NamedAccount("Fax", "line", "a line", "fax.lines", "mail_server")


class Params(ComponentParams):
    line: AccountText = ""
    host: AccountText = ""
    password: AccountText = ""


def test_an_account_in_the_canvas_must_be_complete() -> None:
    params = Params.model_validate({"line": " ", "host": "h", "password": None})
    missing = ACCOUNT.missing(params, ("host", "password"))
    assert missing == ["password"]
    (finding,) = ACCOUNT.findings(missing)
    assert finding.path == ("password",)
    with pytest.raises(
        ComponentError, match=r"^Fax has no password\. Set it in the canvas, or line to the name of a l"
    ):
        ACCOUNT.check(missing, "Fax:A")
    with pytest.raises(ComponentError, match=r"no host, password\. Set them in .* \(\[fax\.lines\.NAME\]\)\.$"):
        ACCOUNT.check(["host", "password"], "Fax:A")
    assert list(ACCOUNT.requirements(params)) == []


def test_an_account_in_the_settings_is_required_by_its_name() -> None:
    params = Params(line=" front ")
    assert ACCOUNT.missing(params, ("host", "password")) == []
    assert list(ACCOUNT.findings([])) == []
    ACCOUNT.check([], "Fax:A")
    assert list(ACCOUNT.requirements(params)) == [Requirement("mail_server", "front", ("line",))]
