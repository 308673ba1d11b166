from ragflow_lg.server.http.mcp.open_sessions import OpenSessions, SessionOwner

ANN, PAGE, BOB = SessionOwner("a", "ann"), SessionOwner("a", "page"), SessionOwner("b", "bob")


def opened(most: int, share: int, *owners: SessionOwner) -> OpenSessions:
    sessions = OpenSessions(most, share)
    for number, owner in enumerate(owners):
        sessions.add(str(number), owner)
    return sessions


def test_a_tenant_with_its_share_gives_up_the_session_that_was_unused_for_longest() -> None:
    sessions = opened(10, 3, ANN, BOB, ANN, ANN)
    assert sessions.find_excess("b") is None
    assert sessions.find_excess("a") == ("0", ANN)
    with sessions.using("0"):
        assert sessions.find_excess("a") == ("2", ANN)
    assert sessions.find_excess("a") == ("2", ANN)
    sessions.discard("2")
    assert sessions.find_excess("a") is None


def test_a_session_with_a_request_ends_only_if_all_have_one() -> None:
    sessions = opened(10, 2, ANN, ANN)
    with sessions.using("0"), sessions.using("0"):
        assert sessions.find_excess("a") == ("1", ANN)
        with sessions.using("1"):
            assert sessions.find_excess("a") == ("0", ANN)


def test_the_key_with_most_sessions_gives_way() -> None:
    assert opened(10, 4, ANN, PAGE, PAGE, PAGE).find_excess("a") == ("1", PAGE)
    assert opened(10, 4, PAGE, ANN, ANN, ANN).find_excess("a") == ("1", ANN)


def test_if_all_sessions_are_taken_the_tenant_with_most_gives_way() -> None:
    sessions = opened(4, 3, BOB, ANN, ANN, PAGE)
    assert sessions.find_excess("c") == ("1", ANN)
    assert sessions.find_excess("b") == ("1", ANN)
    assert opened(5, 3, BOB, ANN, ANN, PAGE).find_excess("c") is None
