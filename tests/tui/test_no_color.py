"""With NO_COLOR no color is sent, and what is selected is still seen."""

from pathlib import Path

import pytest
from rich.segment import Segment

from tests.tui.stage import Stage, on_stage, played, screen_strips
from tidegate.core.messages import Call
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptStep

EDIT = '{"path": "a.py", "old": "port = 1", "new": "port = 2"}'


def segments(stage: Stage) -> list[Segment]:
    return [segment for strip in screen_strips(stage.app) for segment in strip]


def has_color(segment: Segment) -> bool:
    style = segment.style
    colors = (style.color, style.bgcolor) if style is not None else ()
    return any(color is not None and not color.is_default for color in colors)


def marked_text(stage: Stage) -> str:
    """The text that is reversed or underlined."""
    styled = [(each.text, each.style) for each in segments(stage) if each.style is not None]
    return "".join(text for text, style in styled if style.reverse or style.underline)


@pytest.mark.parametrize("no_color", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_no_color_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    steps: list[ScriptStep] = [
        ScriptedAnswer(calls=(Call("c1", "edit", EDIT),)),
        "```python\nprint('a')\n```\n**Done.**",
    ]

    async def play() -> None:
        async with on_stage(tmp_path, steps) as stage:
            (tmp_path / "work" / "a.py").write_text("port = 1\n")
            await stage.say("Edit it.")
            await stage.sees("May edit run?")
            for key, words in (
                ("1", "Done."),
                ("ctrl+up", "› ▸ edit"),
                ("ctrl+o", "- port = 1"),
                ("f2", "next compaction:"),
            ):
                assert any(map(has_color, segments(stage))) != no_color
                await stage.press(key)
                await stage.sees(words)
            assert any(map(has_color, segments(stage))) != no_color
            if no_color:
                assert "█ system" in marked_text(stage)
                assert "what fills the window" in marked_text(stage)
            await stage.press("escape", "f3")
            await stage.sees("+ a new session")
            assert any(map(has_color, segments(stage))) != no_color
            if no_color:
                assert "+ a new session" in marked_text(stage)
            await stage.press("escape", "a", "b", "left")
            await stage.until(lambda: stage.app.composer.text == "ab")
            if no_color:
                assert marked_text(stage) == "b"  # the cursor

    played(play)
