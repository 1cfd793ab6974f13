"""Themes that stay, the end of a long turn, and what is left on the terminal after the app."""

from pathlib import Path

from tests.tui.stage import on_stage, played
from tests.tui.test_talking import Gate
from tidegate import DataFolder
from tidegate.core.messages import Call
from tidegate.core.text.secrets import SecretMask
from tidegate.models.scripted_provider import ScriptedAnswer
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.conversation.transcript_tail import format_transcript_tail
from tidegate.tui.screens.chat_pickers import Picker


def test_a_theme_is_picked_and_kept(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            assert stage.app.theme == "tide-dark"
            await stage.say("/theme")
            await stage.until(lambda: isinstance(stage.app.screen, Picker) and len(stage.app.screen.choices) > 10)
            await stage.type("gruvbox")
            await stage.press("enter")
            await stage.until(lambda: stage.app.theme == "gruvbox")
        async with on_stage(tmp_path) as stage:
            assert stage.app.theme == "gruvbox"
            await stage.press("f5")
            await stage.until(lambda: stage.app.theme == "tide-light")
        (tmp_path / "data" / "preferences" / "theme").write_text("nonsense")
        async with on_stage(tmp_path) as stage:
            assert stage.app.theme == "tide-dark"

    played(play)


def test_the_end_of_a_long_turn_is_announced(tmp_path: Path) -> None:
    now = [0.0]
    gate = Gate("Done.")

    async def play() -> None:
        async with on_stage(tmp_path, ["Quick.", gate], clock=lambda: now[0]) as stage:
            await stage.say("Fast.")
            await stage.sees("Quick.")
            await stage.idle()
            await stage.say("Slow.")
            await stage.until(gate.waits.is_set)
            assert "The turn ended" not in stage.text()
            now[0] = 75
            gate.go.set()
            await stage.sees("The turn ended after 1 min 15 s.")

    played(play)


def test_the_end_of_the_conversation_is_left_on_the_terminal(tmp_path: Path) -> None:
    key = "sk-ant-" + "a1B2" * 12

    async def play() -> None:
        call = ScriptedAnswer(calls=(Call("c1", "list", '{"path": "."}'),))
        async with on_stage(tmp_path, [call, f"The key is {key}.\x1b[2J\nThe end."]) as stage:
            await stage.say("Look.")
            await stage.sees("The end.")
            await stage.idle()

    played(play)
    data = DataFolder(tmp_path / "data", secrets=[])
    try:
        tail = format_transcript_tail(data, "build", TextSanitizer(SecretMask()))
    finally:
        data.close()
    assert tail.startswith("> Look.\n* list .\n")
    assert tail.endswith("The end.")
    assert key not in tail
    assert "\x1b" not in tail
