"""The metadata of committed positions, and the start positions that follow."""

from hypothesis import given
from hypothesis import strategies as st

from connectors.contract.records import Committed
from connectors.state.positions import (
    OffsetMetadata,
    Owner,
    StartPosition,
    encode_metadata,
    exceeds_commit,
    metadata_of,
    start_by_owners,
)

from .world import committed

# ---- examples


def test_no_model_has_read_the_partition():
    assert start_by_owners("a", None, None, 7) == StartPosition(7, 7, [Owner("a", 7, 7)])
    assert start_by_owners("a", None, 30, 7) == StartPosition(30, 30, [Owner("a", 30, 30)])


def test_the_owner_returns():
    metadata = committed(70, ("a", 0, 50))
    assert start_by_owners("a", metadata, 50, 0) == StartPosition(50, 70, [Owner("a", 0, 50)])
    # its newest checkpoint was damaged, or written without being told
    assert start_by_owners("a", metadata, 30, 0) == StartPosition(30, 70, [Owner("a", 0, 30)])
    assert start_by_owners("a", metadata, 80, 0) == StartPosition(80, 80, [Owner("a", 0, 80)])
    # its directory was lost
    assert start_by_owners("a", metadata, None, 0) == StartPosition(0, 70, [Owner("a", 0, 0)])


def test_another_takes_over():
    metadata = committed(70, ("a", 0, 50))
    both = [Owner("a", 0, 50), Owner("b", 50, 50)]
    assert start_by_owners("b", metadata, None, 0) == StartPosition(50, 70, both)
    assert start_by_owners("b", metadata, 20, 0) == StartPosition(50, 70, both)


def test_never_before_its_own_owner():
    metadata = committed(90, ("a", 0, 50), ("b", 50, 90), ("a", 90, 90))
    assert start_by_owners("a", metadata, 50, 0) == StartPosition(90, 90, metadata_of(metadata).owners)
    assert start_by_owners("a", metadata, None, 0) == StartPosition(90, 90, metadata_of(metadata).owners)


def test_another_program_committed():
    for metadata in (
        "",
        "theirs",
        '{"a": 1}',
        "[1]",
        '[["a",0]]',
        '[["a",0,"1"]]',
        "[[1,0,1]]",
        "null",
        "[null]",
        "[]",
        '["t1"]',
        '[1,"t1"]',
        '["t1",1,["a",0]]',
        '["t1",1,["a",0,"1"]]',
        '["t1",1,[1,0,1]]',
        '["t1",1,null]',
        '["t1","1",["a",0,1]]',
        '[null,1,["a",0,1]]',
    ):
        assert metadata_of(Committed(0, metadata)) == OffsetMetadata([])
        assert start_by_owners("a", Committed(40, metadata), None, 0) == StartPosition(
            40, 40, [Owner("a", 40, 40)]
        )
        assert start_by_owners("a", Committed(40, metadata), 30, 0) == StartPosition(
            30, 40, [Owner("a", 30, 30)]
        )
        assert not exceeds_commit("a", Committed(40, metadata), 1000)


def test_metadata_of_brackets():
    assert metadata_of(Committed(0, "[" * 4096)) == OffsetMetadata([])


def test_overreaching():
    metadata = committed(90, ("a", 0, 50), ("b", 50, 90))
    assert exceeds_commit("a", metadata, 51)
    assert not exceeds_commit("a", metadata, 50)
    assert not exceeds_commit("b", metadata, 90)
    assert not exceeds_commit("c", metadata, 1000)
    assert not exceeds_commit("a", None, 51)
    again = committed(99, ("a", 0, 50), ("b", 50, 90), ("a", 90, 95), ("b", 95, 99))
    assert exceeds_commit("a", again, 96)
    assert not exceeds_commit("a", again, 95)


names = st.text("0123456789abcdef", min_size=12, max_size=12)
owners = st.builds(Owner, names, st.integers(0, 2**63), st.integers(0, 2**63))


@given(st.lists(owners, max_size=60, unique_by=lambda owner: owner.model), st.integers(0, 10**6))
def test_what_is_written_is_read(owners, partition_count):
    identity = "XnT2aVQpTL2cqDYuqh3vHA/" + 32 * "f"
    metadata = encode_metadata(OffsetMetadata(owners, identity, partition_count))
    assert len(metadata) <= 4096
    assert metadata_of(Committed(0, metadata)) == OffsetMetadata(owners[-40:], identity, partition_count)


def test_a_client_may_end_metadata_with_zero_bytes():
    metadata = OffsetMetadata([Owner("a", 0, 50)], "id", 4, "5d41")
    assert metadata_of(Committed(70, encode_metadata(metadata) + "\0")) == metadata


def test_the_oldest_of_too_many_owners_are_dropped():
    owners = [Owner(f"{k:012x}", 10 * k, 10 * k + 10) for k in range(60)]
    metadata = encode_metadata(OffsetMetadata(owners, "t1", 3))
    assert metadata_of(Committed(0, metadata)).owners == owners[-40:]
    assert start_by_owners("b", Committed(700, metadata), None, 0).position == 600


def test_a_long_history_forgets_no_model():
    owners = [Owner("a", 0, 50)]
    for i in range(60):
        owners.append(Owner("bc"[i % 2], 50 + i, 51 + i))
    metadata = Committed(110, encode_metadata(OffsetMetadata(owners)))
    assert exceeds_commit("a", metadata, 52)
    assert not exceeds_commit("a", metadata, 50)


def test_a_recreated_topic_grants_nothing_and_refuses_nothing():
    metadata = committed(90, ("a", 0, 50), identity="c/2")
    assert exceeds_commit("a", metadata, 60, "c/2")
    assert exceeds_commit("a", metadata, 60, "")
    assert not exceeds_commit("a", metadata, 60, "c/1")
