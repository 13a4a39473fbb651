"""A log that is not what it was: by what its file is known, and what is said if it is another."""

import json
import random

import pytest

from connectors.contract.errors import POSITION, Failure

from .test_source import (
    CSV,
    JSON,
    PACK,
    TEXT,
    form,
    made,
    opened,
    pack,
    rest,
    sources,  # noqa: F401 (a fixture that closes what was opened)
    write,
)


@pack
@form
def test_the_same_log_is_recognised(tmp_path, pack, form):
    path = write(tmp_path, TEXT[form] * 3, pack)
    source, _ = opened(path, form)
    rest(source)
    for position in (0, 4, 11, len(TEXT[form])):
        mark = json.loads(json.dumps(source.mark({"log": position})))
        made(path, form).recognise(mark)
        longer = write(tmp_path, TEXT[form] * 4, pack)
        made(longer, form).recognise(mark)
        other = write(tmp_path, "y" + TEXT[form][1:], pack)
        if position:
            with pytest.raises(Failure, match="is another log than the one of the checkpoint") as raised:
                made(other, form).recognise(mark)
            assert raised.value.code == POSITION
        write(tmp_path, TEXT[form] * 3, pack)
    assert source.mark({}) == source.mark({"log": 0})
    assert made(write(tmp_path, TEXT[form] * 99, pack), form).mark({"log": 9999})["head"] <= 4096


def test_a_shortened_log(tmp_path):
    path = write(tmp_path, JSON)
    source, _ = opened(path)
    mark = source.mark({"log": len(JSON)})
    path.write_text(JSON[:20])
    source, _ = opened(path)
    with pytest.raises(Failure, match="20 bytes, fewer than the 21") as raised:
        source.begin("log", 21)
    assert raised.value.code == POSITION
    source.begin("log", 20)
    assert rest(source) == []
    with pytest.raises(Failure, match="another log"):
        source.recognise(mark)


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_a_shortened_compressed_log(tmp_path, pack):
    source, _ = opened(write(tmp_path, JSON, pack))
    with pytest.raises(Failure, match="ends before byte 5000") as raised:
        source.begin("log", 5000)
    assert raised.value.code == POSITION


MANY = "".join(f'{{"a": {random.Random(i).random()}}}\n' for i in range(3000))


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
@pytest.mark.parametrize("how", ["cut short", "altered"])
def test_damaged_compressed_data(tmp_path, pack, how):
    whole = PACK[pack](MANY.encode())
    middle = len(whole) // 2
    data = whole[:middle] if how == "cut short" else whole[:middle] + b"\xff" * 40 + whole[middle + 40 :]
    path = write(tmp_path, data)
    with pytest.raises(Failure, match="the data is cut short or damaged") as raised:
        rest(opened(path)[0])
    assert raised.value.code == POSITION
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
def test_damaged_compressed_data_on_the_way_to_a_position(tmp_path, pack):
    whole = PACK[pack](MANY.encode())
    source, _ = opened(write(tmp_path, whole))
    mark = source.mark({"log": len(MANY)})
    path = write(tmp_path, whole[: len(whole) // 2])
    with pytest.raises(Failure) as raised:
        opened(path)[0].begin("log", len(MANY) - 10)
    assert raised.value.code == POSITION
    path = write(tmp_path, whole[:20])
    with pytest.raises(Failure) as raised:
        made(path).recognise(mark)
    assert raised.value.code == POSITION


def test_a_compressed_header_that_is_damaged(tmp_path):
    for packed in ("gzip", "zstd"):
        with pytest.raises(Failure, match="the data is cut short or damaged"):
            made(write(tmp_path, PACK[packed](CSV.encode())[:11]), "csv")
