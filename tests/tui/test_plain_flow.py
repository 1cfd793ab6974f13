"""Text is printed as it comes, and yet no secret and no control sequence, however it is cut into pieces."""

import asyncio
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.stage import DEADLINE
from tidegate.core.text.secrets import SecretMask
from tidegate.terminal.output import TextSanitizer
from tidegate.terminal.stream_masker import MAX_HELD_CHARS, StreamMasker
from tidegate.tui.plain.line_reader import LineReader

VALUE = "hush-0123456789abcdef"
TOKEN = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 20 + "-----END PRIVATE KEY-----\n"
SHOWN = TextSanitizer(SecretMask([VALUE]))
SPLIT = f"{TOKEN[:9]}\n    {TOKEN[9:]}"
STRINGS = f'key = "{TOKEN[:25]}" +\n    "{TOKEN[25:]}"\n'
PIECES = [
    SPLIT,
    STRINGS,
    f"{VALUE[:9]}\\\n{VALUE[9:]} ",
    'password = "Xk29slq1Z" +\n  "Yk29slq1Z" ',
    '"quoted" words ',
    "a word ",
    "and\n",
    VALUE,
    TOKEN,
    "password = Xk29slq1Z ",
    "端口是8443。",
    "\x1b[31mred\x1b[0m ",
    "\x1b]0;me\x07",
    KEY,
]
TEXT = st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join)


def flowed(text: str, cuts: list[int]) -> str:
    flow, places = StreamMasker(SHOWN), sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return "".join([*(flow.feed(text[a:b]) for a, b in pairwise(places)), flow.flush()])


@given(TEXT, st.lists(st.integers(0, 5000), max_size=40))
def test_however_it_comes_the_same_is_shown(text: str, cuts: list[int]) -> None:
    out = flowed(text, cuts)
    assert "".join(out.split()) == "".join(SHOWN(text).split())
    assert not any(secret in out for secret in (VALUE, TOKEN, "MIIEvQ", "k29slq1Z", "\x1b", "\x07"))
    assert not any(part in out for secret in (VALUE, TOKEN) for part in (secret[:9], secret[9:]))


def test_letter_by_letter() -> None:
    text = f"Look:\n{KEY}The port is 8443, the key {TOKEN}. Say {VALUE}\n\x1b[2Jgone"
    assert flowed(text, list(range(len(text)))) == SHOWN(text)


def test_words_are_shown_when_they_are_whole() -> None:
    flow = StreamMasker(SHOWN)
    assert flow.feed("The po") == "The "
    assert flow.feed("rt is") == "port "
    assert flow.feed(" 84\n43") == "is 84\n"
    assert flow.flush() == "43"
    assert StreamMasker(SHOWN).feed("端口是") == "端口是"


def test_what_has_no_end_is_shown_all_the_same() -> None:
    flow = StreamMasker(SHOWN)
    out = "".join(flow.feed("ab" * 50) for _ in range(100))
    assert len(out) > 10_000 - MAX_HELD_CHARS - 100
    assert out + flow.flush() == "ab" * 5000


def test_a_secret_with_spaces_is_never_begun() -> None:
    flow = StreamMasker(TextSanitizer(SecretMask(["correct horse battery"])))
    assert [flow.feed(word) for word in ("It is correct ", "horse ", "battery.")] == ["It is ", "", ""]
    assert flow.flush() == "[masked]."


# --- lines ------------------------------------------------------------------------------------------------------------


def read(fd: int) -> list[str | None]:
    async def reading() -> list[str | None]:
        lines, found = LineReader(fd), list[str | None]()
        while not found or found[-1] is not None:
            found.append(await lines.read_message())
        return found

    return asyncio.run(asyncio.wait_for(reading(), DEADLINE))


MESSAGES = [
    (b"one\r\ntwo\n\nlast", ["one", "two", "", "last", None]),
    (b"one\\\ntwo\\\\\nthree\\\n", ["one\ntwo\\\\", "three", None]),
    (b"\xff\xc3\xa9\n", ["\ufffdé", None]),
    (b"", [None]),
]


@pytest.mark.parametrize(("sent", "messages"), MESSAGES)
def test_messages_of_a_pipe_and_of_a_file(tmp_path: Path, sent: bytes, messages: list[str | None]) -> None:
    into, out = os.pipe()
    os.write(out, sent)
    os.close(out)
    (tmp_path / "file").write_bytes(sent)
    file = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        assert read(into) == messages
        assert read(file) == messages
    finally:
        os.close(into)
        os.close(file)
    assert read(-1) == [None]


def test_an_answer_is_what_is_typed_after_the_question() -> None:
    into, out = os.pipe()

    async def asked() -> list[str | None]:
        lines = LineReader(into)
        os.write(out, b"first\nyes\n")
        first = await lines.read_message()
        answer = asyncio.ensure_future(lines.read_new_line())
        await asyncio.sleep(0)
        os.write(out, b"no\nlater\n")
        return [first, await answer, await lines.read_message(), await lines.read_message()]

    try:
        assert asyncio.run(asyncio.wait_for(asked(), DEADLINE)) == ["first", "no", "yes", "later"]
    finally:
        os.close(into)
        os.close(out)


def test_a_wait_for_a_line_can_be_given_up() -> None:
    into, out = os.pipe()

    async def given_up() -> str | None:
        lines = LineReader(into)
        waiting = asyncio.ensure_future(lines.read_message())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        os.write(out, b"still here\n")
        return await lines.read_message()

    try:
        assert asyncio.run(asyncio.wait_for(given_up(), DEADLINE)) == "still here"
    finally:
        os.close(into)
        os.close(out)
