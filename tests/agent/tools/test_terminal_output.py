"""What a process wrote, as it stands on a screen in the end."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent.tools.shell.shell_tool import MAX_TERMINAL_CHARS, TerminalOutput, emulate_terminal
from tidegate.agent.tools.tool import MAX_STREAM_BYTES


def shown(*pieces: bytes) -> str:
    terminal = TerminalOutput()
    for piece in pieces:
        terminal.feed(piece)
    return terminal.render()


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\r\ntwo\r\n", "one\ntwo"),
        (b"10%\r 50%\r100%\ndone\n", "100%\ndone"),
        (b"long text\rshort\n", "shorttext"),
        (b"\x1b[1;31merror\x1b[0m: no\n", "error: no"),
        (b"abc\b\bX\n", "aXc"),
        (b"one\ntwo\nthree\x1b[2A\r\x1b[2KONE\x1b[2B\r\n", "ONE\ntwo\nthree"),
        (b"working...\x1b[1G\x1b[Kdone\n", "done"),
        (b"old screen\n\x1b[2J\x1b[Hnew\n", "new"),
        (b"\x1b]0;title\x07text\n", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link"),
        (b"caf\xc3\xa9 \xff\n", "café \ufffd"),
        ("字\x1b[K幅\n".encode(), "字幅"),
        ("👨‍👩‍👧 ok ❤️ end\x1b[K\n".encode(), "👨👩👧 ok ❤ end"),
        ("👨‍👩‍👧 ok\n".encode(), "👨‍👩‍👧 ok"),
        (b"a\x1bcb\nc\n", "b\nc"),
        (b"\x1b[20l\x1b[?3ha\nb\n", "a\nb"),
        (b"\x1b[7Jhello\x1b[9K\n", "hello"),
        (b"", ""),
    ],
)
def test_the_last_state_is_what_counts(written: bytes, seen: str) -> None:
    assert shown(written) == seen


def test_bars_of_several_lines_cost_their_last_state() -> None:
    """As of a package manager that draws three bars and goes up to draw them again."""
    frames = [
        "".join(f"\x1b[2K\r{name} {percent}%\n" for name in ("a", "b", "c")) + "\x1b[3A" for percent in range(101)
    ]
    text = shown(b"installing\n", "".join(frames).encode(), b"\x1b[3Bdone\n")
    assert text == "installing\na 100%\nb 100%\nc 100%\ndone"


def test_a_bar_of_megabytes_is_one_line() -> None:
    frame = b"\r%3d%% " + b"#" * 60
    assert shown(b"begin\n", *[frame % (n % 100) for n in range(60_000)], b"\rdone" + b" " * 70, b"\nend\n") == (
        "begin\n" + "done".ljust(74) + "\nend"
    )


def test_what_scrolled_away_is_still_there() -> None:
    lines = [f"line {n}" for n in range(300)]
    assert shown("\n".join([*lines, "x\by"]).encode()) == "\n".join([*lines, "y"])


def test_wide_lines_are_not_broken() -> None:
    assert shown(b"x" * 200_000 + b"\n") == "x" * 200_000
    assert shown(b"\x07" + b"x" * 4000 + b"\n") == "x" * 4000


def test_the_last_part_is_kept() -> None:
    text = shown(*[b"%07d\n" % n for n in range(100_000)])
    assert len(text.encode()) <= MAX_STREAM_BYTES
    assert len(text.encode()) > MAX_STREAM_BYTES - 200
    first, *rest = text.split("\n")
    left_out = int(first.split()[0].strip("[").replace(",", ""))
    assert left_out + len("\n".join(rest)) + 1 == 100_000 * 8
    assert rest == [f"{n:07}" for n in range(100_000 - len(rest), 100_000)]


def test_memory_is_bounded_for_a_line_without_end() -> None:
    tracemalloc.start()
    try:
        terminal, before = TerminalOutput(), tracemalloc.get_traced_memory()[0]
        for _ in range(160):
            terminal.feed("é\x1b[1Cxx".encode() * 20_000)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert terminal.dropped_bytes > 10 * MAX_TERMINAL_CHARS
    assert held < 2 * MAX_TERMINAL_CHARS


def test_a_long_line_that_is_written_over() -> None:
    text = shown(b"x" * 3000 + b"-" * 900, b"\rnew", b"\n")
    assert text == "new" + "x" * 2997 + "-" * 900
    rows = shown(b"a" * 4096 + b"b" * 4096 + b"c" * 100, b"\rnew", b" end\r\nlast\n").split("\n")
    assert rows == ["a" * 4096, "b" * 4096, "new end" + "c" * 93, "last"]


LETTERS = st.sampled_from(["a", "bc", " ", "\r", "\n", "\r\n", "\x1b[31m", "\x1b[0m"])
MOVES = st.sampled_from(
    ["x", "yz", "\r", "\n", "\b", "\t", "\x1b[A", "\x1b[2C", "\x1b[K", "\x1b[1K", "\x1b[2K", "é", "字"]
)


@given(st.lists(LETTERS, max_size=30).map("".join))
def test_the_short_way_and_the_emulator_agree(text: str) -> None:
    """Colours and carriage returns are settled without the emulator: the same comes out, but for blanks at the end."""
    ours = [line.rstrip() for line in shown(text.encode()).split("\n")]
    assert "\n".join(ours).rstrip() == emulate_terminal(text)


@given(st.lists(MOVES, max_size=30).map("".join), st.data())
def test_where_the_bytes_are_cut_does_not_matter(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    cut = data.draw(st.integers(0, len(raw)))
    assert shown(raw[:cut], raw[cut:]) == shown(raw)


@given(st.binary(max_size=200))
def test_any_bytes_become_a_text_without_controls(raw: bytes) -> None:
    text = shown(raw)
    assert "\x1b" not in text
    assert "\r" not in text


@given(
    st.lists(
        st.sampled_from([b"\x1b", b"[", b"?", b"9999", b";", b"L", b"M", b"@", b"P", b"X", b"r", b"h", b"J", b"A"]),
        max_size=40,
    )
)
def test_hostile_sequences_end(pieces: list[bytes]) -> None:
    assert "\x1b" not in shown(b"text\n", *pieces)
