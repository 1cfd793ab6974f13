"""F2: the figures are the session's own, and removed messages can be read, recalled and restored from there."""

import re
from pathlib import Path

import pytest

from tests.tui.stage import Stage, on_stage, played
from tidegate import Session
from tidegate.core.messages import Call
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.session.reports.changes import Change
from tidegate.session.reports.timeline import TimelineEntry
from tidegate.session.reports.window_usage import measure_window_usage
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.screens.context_pane import ContextPane, TextScreen
from tidegate.tui.screens.context_table import (
    clip_details,
    describe_timeline_entry,
    format_timeline_header,
    measure_name_column,
    render_timeline_row,
)

SUMMARY = "## Goal\nThe port is 8443.\n## Next steps\nNone.\n"


async def compacted(stage: Stage) -> None:
    for text in ("The secret word is heron.", "And the host is db7."):
        await stage.say(f"{text} {'detail ' * 800}")
        await stage.idle()
    await stage.say("/compact")
    await stage.sees("takes it back")


async def pane(stage: Stage) -> ContextPane:
    await stage.press("f2")
    await stage.until(lambda: isinstance(stage.app.screen, ContextPane))
    screen = stage.app.screen
    assert isinstance(screen, ContextPane)
    await stage.until(lambda: screen.figures is not None)
    return screen


def test_what_fills_the_window(tmp_path: Path) -> None:
    look = ScriptedAnswer(calls=(Call("c1", "read", '{"path": "notes.txt"}'),))

    async def play() -> None:
        async with on_stage(tmp_path, [look, "The port is 8443."]) as stage:
            (tmp_path / "work" / "notes.txt").write_text("port 8443\n" * 50)
            await stage.say("Which port?")
            await stage.sees("The port is 8443.")
            await stage.idle()
            bar = stage.lines()[-1]
            screen = await pane(stage)
            assert screen.figures is not None
            found = screen.figures.filling
            assert sum(share.tokens for share in found.categories) == found.tokens
            text = stage.text()
            assert f"{found.tokens:,} of {found.capacity:,} tokens" in text
            assert re.search(r"ctx \d+%", bar)[0] in text  # type: ignore[index] # the same as the bar's
            assert "next compaction: in " in text
            for name in ("system", "tools", "user", "assistant", "results: read"):
                assert re.search(rf"█ {name} +(\d+ )? +[\d,]+ +[\d.]+% +\$0\.\d+", text), name
            assert re.search(r"▪ m\d+ read +[\d,]+ +0t \d+s +\$0\.\d+", text)
            assert text.count("█") > 8  # the bar and its legend
            for _ in found.categories:
                await stage.press("down")
            await stage.sees("the newest request: it is always kept")
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TextScreen))
            await stage.sees("Which port?")
            await stage.press("escape", "a", "f5", "f2")
            await stage.until(lambda: not isinstance(stage.app.screen, ContextPane))

    played(play)


def test_what_was_done_to_it_is_shown_taken_back_and_made_again(tmp_path: Path) -> None:
    async def play() -> None:
        provider = ScriptedProvider("openai_chat", ["Noted. " * 300, "Noted. " * 300, SUMMARY, SUMMARY, SUMMARY])
        async with on_stage(tmp_path, provider) as stage:
            await compacted(stage)
            assert "▸ compacted" in stage.text()
            session = stage.agent.session
            small = session.view.tokens
            screen = await pane(stage)
            await stage.press("tab")
            assert screen.figures is not None
            entry = screen.figures.timeline.entries[0]
            assert re.search(r"\d\d:\d\d:\d\d .*→.*out", stage.text())
            assert "why: " in stage.text()
            await stage.press("enter")
            await stage.until(lambda: isinstance(stage.app.screen, TextScreen))
            await stage.sees("The secret word is heron.")
            await stage.press("q")
            await stage.press("u")
            await stage.sees("undone")
            assert session.view.tokens > small
            await stage.press("y")
            await stage.until(lambda: session.view.tokens == small)
            await stage.until(
                lambda: screen.figures is not None and not screen.figures.timeline.entries[-1].change.is_undone
            )
            listed = screen.query_one("#list")
            await stage.until(lambda: f"t{entry.change.seq}" in [option.id for option in listed.options])  # type: ignore[attr-defined]
            listed.highlighted = listed.get_option_index(f"t{entry.change.seq}")  # type: ignore[attr-defined]
            await stage.press("r")
            await stage.until(lambda: not isinstance(stage.app.screen, ContextPane))
            await stage.sees("/recall m")
            held = [row.block.text for row in stage.app.conversation.row_cache.rows if row.block.kind == "answer"]
            assert "The secret word is heron." in held[-1]

    played(play)


# --- lines ------------------------------------------------------------------------------------------------------------

LONG = "due > 1 (is 1.49); " + "a sweep to 7,387 of 11,984 tokens; " * 12


def entry(rule: str, seq: int = 9) -> TimelineEntry:
    change = Change(
        seq,
        1_794_700_000.0,
        "sweep",
        "sweep",
        rule,
        reason=LONG,
        tokens_before=123_400,
        tokens_after=98_700,
        drops=12,
        replacements=14,
        inserts=2,
    )
    return TimelineEntry(
        change,
        summary_tokens=480,
        lost_cache_tokens=7_000,
        calls_affected=12,
        saved_tokens=34_000,
    )


@pytest.mark.parametrize("width", [78, 118])
def test_the_name_of_a_rule_is_whole_and_so_is_what_stands_behind_it(width: int) -> None:
    shown = TextSanitizer()
    entries = [entry("tool_result/cap_result"), entry("before_call/last_resort"), entry("x")]
    column = measure_name_column(entries, width, shown)
    lines = [render_timeline_row(each, column, shown).plain for each in entries]
    for line, each in zip(lines, entries, strict=True):
        assert f"  {each.change.rule} " in line
        assert line.endswith("123k → 98k     12 out, 14 shorter, 2 added")
        assert len(line) <= width
    assert len({line.index("→") for line in [*lines, format_timeline_header(column)]}) == 1
    assert measure_name_column([entry("a" * 200)], width, shown) < width - 50


def test_what_it_cost_and_saved_stands_before_a_long_reason() -> None:
    about = describe_timeline_entry(entry("sweep"), TextSanitizer())
    assert [each.partition(":")[0] for each in about] == ["cost", "saved", "why"]
    lines = clip_details(about, 78, 3).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 78
    told = " ".join(lines)
    assert "480 tokens to write" in told
    assert "saved: 34,000 tokens in 12 calls" in told
    assert told.endswith(" … enter: all")
    assert clip_details(["short"], 78, 3) == "short"


def test_a_shortened_message_is_told_on_the_scale_of_its_size() -> None:
    """The provider counts twice as many tokens as we do: both figures are told in its tokens."""
    session = Session("gpt-4o", window=4_000, count="chars/4")
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    session.add({"role": "user", "content": "Read it."})
    session.add({"role": "assistant", "content": None, "tool_calls": [call]})
    session.add({"role": "tool", "tool_call_id": "c", "content": "a line of the file\n" * 800})
    request = session.prepare()
    session.record({"prompt_tokens": 2 * request.tokens, "completion_tokens": 9})
    (piece,) = [each for each in measure_window_usage(session).messages if each.tool == "read"]
    ours = next(item.tokens for item in session.view.items if item.message.id == piece.id)
    whole = 800 * 19 // 4
    assert piece.tokens > 1.5 * ours
    assert piece.original_tokens > 1.5 * whole
    assert f"shortened from {piece.original_tokens:,} tokens" in piece.reason


def test_on_a_wide_screen_the_figures_stay_near_the_names(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["Yes."], size=(140, 40)) as stage:
            await stage.say("One.")
            await stage.idle()
            await stage.press("f2")
            await stage.sees("next compaction:")
            header = next(line for line in stage.lines() if "share" in line and "a call" in line)
            assert header.rstrip().endswith("a call")
            assert len(header.rstrip()) < 90

    played(play)
