from ipaddress import ip_network
from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.dsl.webhook_configuration import (
    MAX_BODY_BYTES,
    Anonymous,
    BasicAuth,
    HmacAuth,
    JwtAuth,
    RateLimit,
    Security,
    TokenAuth,
    find_webhook_params,
    read_configuration,
    webhook_findings,
)
from tests.harness.rows import each_row, read_rows

OPEN = {"auth_type": "none", "allow_anonymous": True}
NO_SECURITY: tuple[Any, ...] = (None, {}, [], "none")
GITHUB = ("X-Hub-Signature-256", "sha256", "")
TIMED = {"secret": "s", "header": "X", "algorithm": "SHA512", "timestamp_header": "T"}


def security(**settings: Any) -> Security:
    return read_configuration({"security": {**OPEN, **settings}}).security


def test_the_begin_is_found_in_both_shapes() -> None:
    params = {"mode": "webhook"}
    shape: dict[str, Any] = {"component_name": "Begin", "params": params}
    for begin in ({"obj": shape}, shape):
        assert find_webhook_params({"components": {"a": 7, "b": {"obj": None}, "begin": begin}}) == params
    invalid: tuple[Any, ...] = ([], None, {}, {"components": []})
    for dsl in (*invalid, {"components": {"begin": {"obj": {"component_name": "Begin"}}}}):
        with pytest.raises(RequestError) as refused:
            find_webhook_params(dsl)
        assert refused.value.number == 400


def test_missing_settings_have_defaults() -> None:
    configuration = read_configuration({"security": OPEN})
    assert configuration.security == Security(Anonymous(), MAX_BODY_BYTES, None, None)
    assert (configuration.methods, configuration.content_type, configuration.schema) == (frozenset(), "", {})
    assert (configuration.is_immediate, configuration.status, configuration.body_template) == (True, 200, "")


def test_all_settings_are_parsed() -> None:
    jwt = {"secret": "s", "audience": "a,b", "issuer": "i", "required_claims": ["role"]}
    limits = {"rate_limit": {"limit": "5", "per": "Hour"}, "max_body_size": "512KB"}
    secured = {"auth_type": "JWT", "jwt": jwt, "ip_whitelist": ["10.0.0.0/8", "::1"], **limits}
    about: dict[str, Any] = {
        "content_types": "Application/JSON; charset=utf-8",
        "schema": {"body": {}},
        "response": {"status": 999},
    }
    configuration = read_configuration(
        {"security": secured, "methods": ["post", "GET"], "execution_mode": "Streaming", **about}
    )
    assert configuration.security == Security(
        JwtAuth("s", "HS256", ("a", "b"), "i", ("role",)),
        512 * 1024,
        (ip_network("10.0.0.0/8"), ip_network("::1")),
        RateLimit(5, 3600),
    )
    assert (configuration.methods, configuration.content_type) == (frozenset({"POST", "GET"}), "application/json")
    assert (configuration.is_immediate, configuration.schema) == (False, {"body": {}})


@each_row(
    ("settings", "expected"),
    [
        ({"auth_type": "token", "token": {"token_header": "X", "token_value": "v"}}, TokenAuth("X", "v")),
        ({"auth_type": "basic", "basic_auth": {"username": "u", "password": "p"}}, BasicAuth("u", "p")),
        ({"auth_type": "hmac", "hmac": {"secret": "s"}}, HmacAuth("s", *GITHUB, "{body}", 86_400)),
        ({"auth_type": "HMAC", "hmac": TIMED}, HmacAuth("s", "X", "sha512", "T", "{timestamp}.{body}", 300)),
        ({"allow_anonymous": "yes"}, Anonymous()),
        ({"allow_anonymous": 1}, Anonymous()),
    ],
)
def test_authentication_is_parsed(settings: dict[str, Any], expected: object) -> None:
    assert security(**settings).auth == expected


@each_row(("settings", "message"), read_rows("webhook_errors"))
def test_invalid_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as refused:
        security(**settings)
    assert refused.value.number == 400


@each_row(
    ("params", "problem"),
    [
        *(({"security": value}, "no `security`") for value in NO_SECURITY),
        *(
            ({"security": OPEN, "response": {"status": each}}, r"response\.status")
            for each in (199, "abc", True, 200.5)
        ),
    ],
)
def test_a_webhook_without_security_or_with_an_invalid_status_is_refused(params: Any, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        read_configuration(params)


@each_row(
    ("params", "path"),
    [
        ({}, ("security",)),
        ({"security": {"auth_type": "none"}}, ("security",)),
        ({"security": {"auth_type": "hmac"}}, ("security",)),
        ({"security": {"auth_type": "hmac", "hmac": {"secret": ""}}}, ("security", "hmac", "secret")),
        ({"security": {"auth_type": "jwt", "jwt": {}}}, ("security", "jwt")),
        ({"security": {"auth_type": "basic", "basic_auth": {"username": "u"}}}, ("security", "basic_auth")),
        ({"security": OPEN, "response": {"status": 500}}, ("response", "status")),
    ],
)
def test_what_refuses_every_call_is_found(params: dict[str, Any], path: tuple[str, ...]) -> None:
    (finding,) = webhook_findings(params)
    assert (finding.code, finding.severity, finding.path) == ("webhook-closed", "warning", path)


def test_a_webhook_that_accepts_calls_has_no_findings() -> None:
    assert not list(webhook_findings({"security": OPEN}))
