import pytest

from ragflow_lg.base.long_list import BLOCK, Block, LongList, extend_list
from tests.harness.rows import each_row

EMPTY = LongList([], [])


@each_row("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK**2 - 1, BLOCK**2, BLOCK**3 + BLOCK + 3])
def test_a_long_list_reads_like_a_list(count: int) -> None:
    plain = list(range(count))
    long = EMPTY.extended(plain)
    assert (len(long), list(long) if count < 300 else long.last(count), bool(long)) == (count, plain, bool(plain))
    for last in (0, 1, 5, BLOCK, 40, count, count + 1):
        assert long.last(last) == plain[max(count - last, 0) :]
        assert long[-last:] == plain[-last:]
    assert long[3:7] == plain[3:7]
    assert long[::-1] == plain[::-1]
    assert long == plain


def test_an_index_outside_the_list_is_refused() -> None:
    long = EMPTY.extended("abc")
    assert (long[0], long[-1]) == ("a", "c")
    with pytest.raises(IndexError):
        long[3]


def test_appending_one_by_one_shares_the_blocks() -> None:
    long, whole = EMPTY, EMPTY.extended(range(1000))
    for number in range(1000):
        longer = long.extended([number])
        assert len(longer.blocks) < 4 * BLOCK
        long = longer
    assert (
        [block.level for block in long.blocks]
        == [block.level for block in whole.blocks]
        == [3, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1]
    )
    longer = long.extended(["x"])
    assert longer.blocks[0] is long.blocks[0]
    assert (len(long), longer.last(2)) == (1000, [999, "x"])


def test_blocks_are_read_only_where_they_are_needed() -> None:
    long = LongList([Block(2, None, "a"), Block(1, None, "b")], ["t"])
    assert len(long) == BLOCK**2 + BLOCK + 1
    assert long.last(1) == ["t"]
    assert [block.digest for block in long.missing(2)] == ["b"]
    assert [block.digest for block in long.missing(BLOCK + 2)] == ["b", "a"]
    with pytest.raises(LookupError, match=f"The last 2 of {len(long)} entries"):
        long.last(2)
    long.blocks[1].content = list(range(BLOCK))
    assert long.last(3) == [BLOCK - 2, BLOCK - 1, "t"]


def test_plain_lists_are_extended_as_well() -> None:
    assert extend_list(None, ["a"]) == ["a"]
    assert extend_list(EMPTY, ["a"]) == ["a"]
    assert isinstance(extend_list(EMPTY, ["a"]), LongList)
