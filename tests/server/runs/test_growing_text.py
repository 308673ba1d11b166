from ragflow_lg.server.runs.replay_filter import GrowingText


def test_pieces_are_joined_when_the_text_is_read() -> None:
    text = GrowingText("a")
    text.append("bc")
    assert (text.text, len(text)) == ("abc", 3)
    text.append("d")
    assert (text.text, len(text)) == ("abcd", 4)
    assert GrowingText().text == ""
