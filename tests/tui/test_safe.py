"""Nothing that a model or a tool wrote gives orders to the terminal, and no secret is shown."""

import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.segment import Segment
from textual._xterm_parser import XTermParser
from textual.color import Color
from textual.strip import Strip

from tests.tui.stage import CONFIG, DEADLINE, Stage, on_stage, played, screen_strips
from tidegate.core.messages import Call
from tidegate.core.text.secrets import SecretMask
from tidegate.core.text.terminal_text import CONTROL_CHARACTERS
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.app import ControlFilter
from tidegate.tui.conversation.block_renderer import BlockRenderer
from tidegate.tui.conversation.transcript_blocks import TranscriptBlock
from tidegate.tui.paste_filter import PASTE_END, PASTE_START, PasteFilter
from tidegate.tui.themes import DARK_THEME, make_palette

EVIL = (
    "\x1b[2J\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x1b\\\x9b5A\x90dcs\x9c\x07\x08\x7f"
    "\u202egnp.exe\u2066x\u2069\u200b\ufeff\U000e0041\r\nnext\x0bline\x85end\u2028last\ud800"
)
ORDERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
KEY = "sk-proj-abcdefghijklmnop1234567890ABCD"
signs = st.text(st.one_of(st.characters(), st.sampled_from("\x1b[]0;m\x07\x9b\u202e\r\n\t`#*|>-<&")), max_size=200)


safe = TextSanitizer()


def drawing(width: int = 60) -> BlockRenderer:
    return BlockRenderer(
        width, make_palette(DARK_THEME.to_color_system().generate(), dark=True), TextSanitizer(SecretMask([KEY]))
    )


def test_orders_go_and_words_stay() -> None:
    done = safe(EVIL)
    assert done == "redgnp.exex\nnext\nline\nend\nlast\ufffd"
    assert safe("héllo 日本 👩‍💻\n\tx") == "héllo 日本 👩‍💻\n    x"


@given(signs)
def test_nothing_harmful_is_left_and_doing_it_twice_does_nothing(text: str) -> None:
    done = safe(text)
    assert not ORDERS.search(done)
    assert not any(unicodedata.category(sign) in ("Cc", "Cs") for sign in done.replace("\n", ""))
    assert safe(done) == done


@settings(max_examples=40)
@given(signs, st.sampled_from(["user", "said", "thinking", "call", "result", "edit", "note", "problem", "answer"]))
def test_no_block_draws_an_order(text: str, kind: str) -> None:
    block = TranscriptBlock("k", kind, text, text, result=text, call_id="c")  # type: ignore[arg-type]
    draw = drawing()
    for opened in (False, True):
        for strip in draw.render_block(block, is_open=opened, is_chosen=opened):
            assert not ORDERS.search(strip.text), repr(strip.text)
            assert "\n" not in strip.text
            assert strip.cell_length <= 60
            assert not any(segment.style and segment.style.link for segment in strip)


@settings(max_examples=40)
@given(st.lists(signs, min_size=1, max_size=4))
def test_what_grows_draws_no_order_either(pieces: list[str]) -> None:
    draw, block = drawing(), TranscriptBlock("k", "said")
    grown: list[Strip] = []
    for piece in pieces:
        block.text += f"{piece}\n\n"
        grown = draw.render_block(block, is_open=False, is_chosen=False, growing=True)
    assert not any(ORDERS.search(strip.text) for strip in grown)


@pytest.mark.exhaustive
@settings(max_examples=40)
@given(st.lists(st.text("ab c", min_size=1, max_size=40), min_size=1, max_size=8), st.data())
def test_what_grows_has_the_whole_words_of_what_is_complete(paragraphs: list[str], data: st.DataObject) -> None:
    whole = "\n\n".join(f"w{place} {text}" for place, text in enumerate(paragraphs))
    draw, block = drawing(), TranscriptBlock("k", "said")
    end = 0
    while end < len(whole):
        end = data.draw(st.integers(end + 1, len(whole)))
        block.text = whole[:end]
        grown = draw.render_block(block, is_open=False, is_chosen=False, growing=True)
        block.text = block.text[: max(block.text.rfind(" "), block.text.rfind("\n")) + 1]
        settled = draw.render_block(block, is_open=False, is_chosen=False)
        assert [strip.text.rstrip() for strip in grown] == [strip.text.rstrip() for strip in settled]


@pytest.mark.parametrize("key", [KEY, f"{KEY[:20]}\n{KEY[20:]}", f'x = "{KEY[:20]}" +\n    "{KEY[20:]}"'])
def test_no_beginning_of_a_key_is_shown_while_it_comes(key: str) -> None:
    draw, block, text = drawing(), TranscriptBlock("k", "said"), f"the key is {key} and\nmore words"
    lines: list[str] = []
    for end in range(len(text)):
        block.text = text[:end]
        lines = [strip.text for strip in draw.render_block(block, is_open=False, is_chosen=False, growing=True)]
        assert KEY[:10] not in "".join(lines), text[:end]
        assert KEY[20:30] not in "".join(lines), text[:end]
    assert "and" in "".join(lines)


def test_the_line_filter_is_the_last_check() -> None:
    done = ControlFilter().apply([Segment(f"a{EVIL}b"), Segment("plain")], Color.parse("black"))
    assert not CONTROL_CHARACTERS.compiled.search("".join(segment.text for segment in done).replace("\n", ""))
    assert done[1].text == "plain"


def test_a_hidden_sign_does_not_unmask_a_key() -> None:
    shown = TextSanitizer(SecretMask([KEY]))
    for hidden in (KEY, KEY[:12] + "\u200b" + KEY[12:], KEY[:9] + "\x1b[0m" + KEY[9:]):
        assert KEY[12:] not in shown(f"the key is {hidden}.")


def test_on_the_whole_screen(tmp_path: Path) -> None:
    """Model, tool, file name, question and card: none of it reaches the terminal, and the key neither."""
    call = ScriptedAnswer(
        thinking=f"think {EVIL[:-1]} {KEY}",
        text=f"say {EVIL[:-1]} {KEY}",
        calls=(
            Call("c1", "read", f'{{"path": "notes.txt", "x": "\\u001b[31m {KEY}"}}'),
            Call("c2", "read", '{"path": "notes.txt"}'),
        ),
    )

    async def play() -> None:
        async with on_stage(tmp_path, ScriptedProvider("anthropic", [call, f"done {EVIL[:-1]}"])) as stage:
            (tmp_path / "work" / "notes.txt").write_text(f"file {EVIL[:-1]} {KEY}\n")
            await stage.say(f"look {KEY}")
            await stage.sees("done")
            await stage.idle()
            for key in ("ctrl+o", "f2"):
                await stage.press(key)
                written = "".join(stage.lines())
                assert not ORDERS.search(written)
                assert KEY not in written
            await stage.sees("next compaction:")
            await stage.press("escape", "ctrl+home")
            assert "look" in stage.text()
            assert KEY not in stage.text()

    played(play)


HOSTILE = {
    "escapes": "\x1b[2J\x1b[H\x1b[?1049l\x1bc\x1b[999;999H\x1b]0;title\x07" + EVIL[:-1],
    "long": "x" * 3_000_000,
    "wide": "日本語👩\u200d💻👨\u200d👩\u200d👧한글ｆｕｌｌ❤\ufe0f👍🏽🇩🇪" * 150,
    "zero": "a" + "\u0301" * 1_000 + "b\u200b\u200d\ufeff\u2060c" * 300,
    "bidi": "\u202eevil\u2066abc\u2069 \u05d0\u05d1\u05d2 \u0627\u0644\u0639 " * 100,
    "tabs": "\t" * 3_000 + "\x0b\x0c\x85\u2028end",
}
"""Names of files and the text in them."""


def check_frame(stage: Stage, width: int, height: int) -> None:
    """Every line fills the screen, and input and status bar are in their places."""
    strips, lines = screen_strips(stage.app), stage.lines()
    assert [strip.cell_length for strip in strips] == [width] * height
    assert not ORDERS.search("".join(lines))
    assert max(len(line) for line in lines) < 4 * width, "so many characters on a line that they cover others"
    assert lines[-3].startswith("────")
    assert lines[-2].startswith(" › Say something.")
    assert lines[-1].startswith(" ctx ")


@pytest.mark.parametrize(
    "size", [pytest.param((60, 18), id="60x18", marks=pytest.mark.exhaustive), pytest.param((80, 24), id="80x24")]
)
def test_hostile_tool_output_leaves_the_screen_intact(size: tuple[int, int], tmp_path: Path) -> None:
    calls = [ScriptedAnswer(calls=(Call(f"c{name}", "read", f'{{"path": "{name}.txt"}}'),)) for name in HOSTILE]
    config = CONFIG.replace("window: 8000", "window: 128000")

    async def play() -> None:
        async with on_stage(tmp_path, [*calls, "All read."], config=config, size=size) as stage:
            for name, text in HOSTILE.items():
                (tmp_path / "work" / f"{name}.txt").write_text(text, "utf-8")
            await stage.say("Read them.")
            await stage.sees("All read.")
            await stage.idle()
            check_frame(stage, *size)
            await stage.press("ctrl+o", "ctrl+home")
            shown = ""
            at_end = False
            while not at_end:
                await stage.settle()
                check_frame(stage, *size)
                shown += stage.text()
                at_end = stage.app.conversation.is_following
                await stage.press("pagedown")
            assert [name for name in HOSTILE if f"read  {name}.txt" not in shown] == []
            for words in ("redgnp.exex", "x" * 40, "日本語", "bcbcbc", "evilabc", "end"):
                assert words in shown, words
            for name in HOSTILE:  # the output of a command of the user, too
                await stage.say(f"!cat {name}.txt")
                await stage.sees(f"┆ !cat {name}.txt")  # the answer: the command has ended
                check_frame(stage, *size)

    played(play)


@pytest.mark.exhaustive
def test_a_line_of_40_megabytes_takes_little_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.tui.long_line", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr[-2000:]
    peak = json.loads(done.stdout)
    assert peak["after"] - peak["before"] < 25_000  # kilobytes; the line has 40,000


def test_escapes_in_a_paste_are_no_keys_however_it_comes() -> None:
    pasted = "a\x1b[31mred\x1b[0m\rb\x1b]0;t\x07c\x1b\x1b[20\r"
    data = f"x\x1b[A{PASTE_START}{pasted}{PASTE_END}y\x1b{PASTE_START}{PASTE_END}\x1b"
    texts = []
    for size in (*range(1, 9), len(data)):
        pastes = PasteFilter()
        pieces = [pastes(data[at : at + size]) for at in range(0, len(data), size)]
        before, _, rest = "".join(pieces).partition(PASTE_START)
        inside, _, after = rest.partition(PASTE_END)
        assert (before, after) == ("x\x1b[A", f"y\x1b{PASTE_START}{PASTE_END}\x1b")
        assert "\x1b" not in inside
        texts.append(safe(inside))
    assert len(set(texts)) == 1
    assert texts[0].startswith("ared\nb")
    assert PasteFilter()("\x1b") == "\x1b", "the key itself is not held back"
    events = list(XTermParser().feed(PasteFilter()(f"{PASTE_START}{pasted}{PASTE_END}")))
    assert [type(event).__name__ for event in events] == ["Paste"]
