from checkpoints.memory import MemoryBlobs


async def test_blobs_belong_to_their_thread() -> None:
    blobs = MemoryBlobs()
    await blobs.put("a", {"1": b"x"})
    assert await blobs.find("a", ["1", "2"]) == {"1": b"x"}
    assert await blobs.find("b", ["1"]) == {}
    await blobs.delete("a")
    assert await blobs.find("a", ["1"]) == {}
