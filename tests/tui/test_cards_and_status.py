"""Cards that open and close for the eye alone, and figures that are always in view."""

from pathlib import Path

import pytest

from tests.tui.stage import CONFIG, on_stage, played
from tidegate.core.messages import Call
from tidegate.core.usage import Usage
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.tui.status.status_bar import (
    StatusBar,
    classify_fill,
    fit_status_segments,
    format_token_count,
    list_status_segments,
)
from tidegate.tui.status.status_figures import StatusFigures

LOOK = ScriptedAnswer(
    thinking="I must look\nfirst at the notes.",
    text="I look.",
    calls=(Call("c1", "read", '{"path": "notes.txt"}'), Call("c2", "read", '{"path": "gone.txt"}')),
)


def talked(folder: Path, *, opened: bool) -> list[bytes]:
    """The requests of one and the same talk, with the cards opened and closed all the way, or never touched."""
    provider = ScriptedProvider("anthropic", [LOOK, "The port is 8443.", "Yes."])

    async def play() -> None:
        folder.mkdir(exist_ok=True)
        async with on_stage(folder, provider) as stage:
            (folder / "work" / "notes.txt").write_text("line one\nthe port is 8443\n")
            await stage.say("Which port?")
            await stage.sees("The port is 8443.")
            await stage.idle()
            if opened:
                await stage.press("ctrl+o")
                await stage.sees("the port is 8443")
                await stage.press("ctrl+up", "ctrl+o", "escape")
            await stage.say("Sure?")
            await stage.sees("Yes.")

    played(play)
    folders = str(folder).encode()
    return [request.replace(folders, b"HERE") for request in provider.requests]


@pytest.mark.exhaustive
@pytest.mark.seed("JUT-05", fixed="cards are of the screen, whatever the preset")
def test_an_open_card_changes_nothing_for_the_model(tmp_path: Path) -> None:
    assert talked(tmp_path / "a", opened=True) == talked(tmp_path / "b", opened=False)


@pytest.mark.seed("JUT-05", fixed="cards are of the screen, whatever the preset")
def test_cards_are_closed_until_they_are_opened_all_or_one(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ScriptedProvider("anthropic", [LOOK, "The port is 8443."])) as stage:
            (tmp_path / "work" / "notes.txt").write_text("line one\nthe port is in the notes\n")
            await stage.say("Which port?")
            await stage.sees("The port is 8443.")
            await stage.idle()
            closed = stage.text()
            assert "▸ thought  I must look first at the notes." in closed
            assert "▸ read  notes.txt" in closed
            assert "▸ read  gone.txt  failed" in closed
            assert "port is in the notes" not in closed

            await stage.press("ctrl+o")
            assert "port is in the notes" in stage.text()
            assert "│ There is no file gone.txt" in stage.text()
            assert "▸" not in stage.text()
            await stage.press("ctrl+o")
            assert stage.text() == closed

            await stage.press("ctrl+up", "ctrl+up", "ctrl+o")  # the second from below
            await stage.settle()
            assert "port is in the notes" in stage.text()
            assert "│ There is no file gone.txt" not in stage.text()
            await stage.press("ctrl+up", "ctrl+o")
            assert "│ I must look" in stage.text()
            await stage.press("ctrl+down", "ctrl+o", "ctrl+up", "ctrl+o", "escape")
            assert stage.text() == closed

            spot = next(y for y, line in enumerate(stage.lines()) if "read  notes.txt" in line)
            await stage.pilot.click("#conversation", offset=(6, spot))
            await stage.settle()
            assert "port is in the notes" in stage.text()

    played(play)


@pytest.mark.seed("JUT-13", fixed="the bar is the screen's, whatever the preset")
def test_the_share_has_its_colour() -> None:
    assert [classify_fill(percent) for percent in (0, 69, 70, 89, 90, 140, None)] == [
        *("calm", "calm", "yellow", "yellow", "red", "red"),
        "unknown",
    ]


@pytest.mark.seed("JUT-13", fixed="the bar is the screen's, whatever the preset")
@pytest.mark.parametrize("width", [10, 24, 40, 80, 200])
def test_the_share_is_in_view_on_every_screen(width: int) -> None:
    standing = StatusFigures("a-model-with-a-very-long-name-indeed", 7_100, 10_000, 0.0312, 0.62, 9_000, 3, True, True)
    assert fit_status_segments(standing, width)[0].text == "ctx 71%"
    assert fit_status_segments(StatusFigures("m", 7_100, None), width)[0].text == "ctx ?"


def test_the_bar_says_all_of_it() -> None:
    standing = StatusFigures("gpt-x", 7_100, 10_000, 0.0312, 0.62, 9_000, 3, True, True)
    told = [piece.text for piece in list_status_segments(standing)]
    assert told == ["ctx 71%", "7.1k / 10k", "gpt-x", "summarizing…", "$0.0312 62% cached", "3 compacted"]
    unknown = [
        piece.text
        for piece in list_status_segments(
            StatusFigures("gpt-x", 7_100, None, None, 0.0, 9_000, 0, cost_is_complete=True)
        )
    ]
    assert unknown[:3] == ["ctx ?", "7.1k / window unknown", "gpt-x"]
    assert "9k tokens, no price 0% cached" in unknown
    assert [format_token_count(count) for count in (999, 1_000, 12_345, 1_000_000, 2_500_000)] == [
        "999",
        "1k",
        "12k",
        "1M",
        "2.5M",
    ]


@pytest.mark.seed("JUT-13", fixed="the bar is the screen's, whatever the preset")
def test_the_bar_follows_the_session(tmp_path: Path) -> None:
    """Colour and figures are those of the last report; the cached share is the reports' own."""
    half = ScriptedAnswer(text="Half.", usage=Usage(3_000, 10, 1_500, 0))
    full = ScriptedAnswer(text="Full.", usage=Usage(4_400, 10, 3_310, 0))

    async def play() -> None:
        async with on_stage(tmp_path, [half, full]) as stage:
            status = stage.app.query_one(StatusBar)
            assert stage.lines()[-1].startswith(" ctx ")
            await stage.say("One? " + "detail " * 2_200)
            await stage.sees("ctx 50%")
            await stage.idle()
            assert "3k / 6k   scripted   $0.0034 50% cached   0 compacted" in stage.lines()[-1]
            assert status.render().spans[0].style == f"bold {stage.app.theme_variables['success']}"
            await stage.say("Two? " + "detail " * 1_300)
            await stage.sees("ctx 73%")
            await stage.idle()
            assert status.render().spans[0].style == f"bold {stage.app.theme_variables['warning']}"
            assert "65% cached" in stage.lines()[-1]

    played(play)


def test_an_unknown_window_is_said(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["Yes."], config=CONFIG.replace("window: 8000\n", "")) as stage:
            await stage.sees("window unknown")
            assert "/ 28k, window unknown" in stage.lines()[-1], "what is assumed, less the reserve"

    played(play)
