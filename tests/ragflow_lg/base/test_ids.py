import uuid

from ragflow_lg.base.ids import session_of_thread, thread_of_session


def test_a_session_of_hexadecimal_digits_is_the_same_uuid_as_its_thread() -> None:
    session = uuid.UUID(int=7).hex
    assert thread_of_session(session) == str(uuid.UUID(int=7))
    assert session_of_thread(thread_of_session(session)) == session


def test_other_sessions_map_to_a_stable_uuid() -> None:
    for name in ("anna", "", "a-b", "漢"):
        assert thread_of_session(name) == thread_of_session(name)
        assert str(uuid.UUID(thread_of_session(name))) == thread_of_session(name)
    assert thread_of_session("anna") != thread_of_session("bert")
    assert len(session_of_thread("no uuid")) == 32


def test_a_session_may_contain_lone_surrogates() -> None:
    assert thread_of_session("a\udcff") == thread_of_session("a\udcff") != thread_of_session("a")
