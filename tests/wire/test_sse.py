"""Server-sent events: the same frames however the bytes are cut, and bounds on what a server may send."""

import pytest

from tidegate.wire.limits import LimitExceeded
from tidegate.wire.streaming.sse import SseFrame, SseReader

STREAM = (
    b"\xef\xbb\xbf: a comment\n\n"
    b'event: message_start\r\ndata: {"a": 1}\r\n\r\n'
    b"data: first\rdata: second\r\r"
    b"id: 7\nretry: 10\ndata:no space\n\n"
    b"data: \xe6\xbd\xae \xf0\x9f\x8c\x8a\n\n"
    b"event: only\n\n"
    b"data\n\n"
    b"data:  two spaces\n\n"
    b"data: never ended\n"
)
FRAMES = [
    SseFrame("message_start", '{"a": 1}'),
    SseFrame("", "first\nsecond"),
    SseFrame("", "no space"),
    SseFrame("", "潮 \U0001f30a"),
    SseFrame("", ""),
    SseFrame("", " two spaces"),
]


def read(*pieces: bytes) -> list[SseFrame]:
    reader = SseReader()
    return [frame for piece in pieces for frame in reader.feed(piece)]


def test_frames_at_once() -> None:
    assert read(STREAM) == FRAMES


def test_cut_at_every_byte() -> None:
    for place in range(len(STREAM) + 1):
        assert read(STREAM[:place], b"", STREAM[place:]) == FRAMES, place


def test_byte_by_byte() -> None:
    assert read(*(STREAM[place : place + 1] for place in range(len(STREAM)))) == FRAMES


def test_every_prefix_gives_a_prefix() -> None:
    for place in range(len(STREAM)):
        found = read(STREAM[:place])
        assert found == FRAMES[: len(found)]


def test_bytes_that_are_no_text_end_nothing() -> None:
    assert read(b"data: a\xff\xfeb\n\n") == [SseFrame("", "a\ufffd\ufffdb")]


def test_line_separators_of_unicode_are_text() -> None:
    assert read("data: a\u2028b\u0085c\x0bd\x1ce\n\n".encode()) == [SseFrame("", "a\u2028b\u0085c\x0bd\x1ce")]


def test_failure_under_a_field_of_its_own() -> None:
    assert read(b'error: {"code": 400}\n\n') == [SseFrame("error", '{"code": 400}')]


def test_longest_line_passes_and_a_longer_one_does_not() -> None:
    reader = SseReader(longest=20)
    assert reader.feed(b"data: 89012345678\r\n\r\n") == [SseFrame("", "89012345678")]
    with pytest.raises(LimitExceeded, match="longer than 20 bytes"):
        [reader.feed(b"x") for _ in range(21)]


def test_many_short_lines_are_bounded_as_one_frame() -> None:
    reader = SseReader(longest=20)
    reader.feed(b"data: 1\ndata: 2\n")
    with pytest.raises(LimitExceeded, match="longer than 20 bytes"):
        reader.feed(b"data: 3\n")


def test_ends_say_where_each_frame_ends() -> None:
    pieces = [b'event: a\ndata: {"a": 1}\n\n', b"data: b\n\n", b"data:c\n\n", b"data: d\r\n\r\n", b"data: e\n\n"]
    reader = SseReader()
    assert [frame.data for frame in reader.feed(b"".join(pieces) + b"event: rest")] == ['{"a": 1}', "b", "c", "d", "e"]
    assert reader.ends == [len(b"".join(pieces[:count])) for count in range(1, 6)]
    assert [frame.event for frame in reader.feed(b"\ndata: f\n\n" + pieces[0])] == ["rest", "a"]
    assert reader.ends == [10, 10 + len(pieces[0])]
