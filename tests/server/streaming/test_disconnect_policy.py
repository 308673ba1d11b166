import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.streaming.disconnect_policy import CANCEL, CONTINUE, DisconnectPolicy, parse_policy


@pytest.mark.parametrize(
    ("text", "policy"),
    [("cancel", CANCEL), ("continue", CONTINUE), ("grace:0", CANCEL), ("grace:1.25", DisconnectPolicy(1.25))],
)
def test_a_policy_is_parsed_and_formatted(text: str, policy: DisconnectPolicy) -> None:
    assert parse_policy(text) == policy
    assert parse_policy(str(policy)) == policy


@pytest.mark.parametrize("text", ["", "grace", "grace:-1", "grace:nan", "grace:1e9", "Cancel", "grace:٣", "x" * 500])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="use cancel, continue or grace:SECONDS") as raised:
        parse_policy(text)
    assert len(str(raised.value)) < 150
