"""Every other key: the input, completion, questions, pickers, scrolling, leaving."""

from pathlib import Path

import pytest
from textual import events

from tests.tui.stage import CONFIG, on_stage, played
from tidegate.core.messages import Image, MarkedText
from tidegate.models.scripted_provider import ScriptedProvider
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.screens.chat_pickers import Picker
from tidegate.tui.screens.context_pane import ContextPane

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (3).to_bytes(4) + (2).to_bytes(4) + b"rest"


def test_several_lines_pasted_and_typed(tmp_path: Path) -> None:
    async def play() -> None:
        provider = ScriptedProvider("openai_chat", ["Yes."])
        async with on_stage(tmp_path, provider) as stage:
            await stage.type("one")
            for key in ("ctrl+j", "alt+enter", "shift+enter"):
                await stage.press(key)
                await stage.type("next")
            stage.app.composer.post_message(events.Paste("pasted\r\nlines\x1b[31m red\x07"))
            await stage.sees("lines red")
            assert provider.requests == []  # a line end that is pasted sends nothing
            assert stage.app.composer.text == "one\nnext\nnext\nnextpasted\nlines red"
            await stage.press("enter")
            await stage.sees("Yes.")
            assert b"one\\nnext\\nnext\\n\\nnextpasted\\nlines red" in provider.requests[0]
            await stage.idle()
            await stage.type("gone")
            await stage.press("ctrl+c")
            assert stage.app.composer.text == ""

    played(play)


def test_what_was_typed_before_comes_back_also_after_a_restart(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["a", "b"], name="old") as stage:
            for text in ("first words", "second words"):
                await stage.say(text)
                await stage.idle()
        async with on_stage(tmp_path, ["c"], name="new") as stage:
            await stage.say("third words")
            await stage.idle()
            await stage.type("draft")
            seen = []
            for _ in range(4):
                await stage.press("up")
                seen.append(stage.app.composer.text)
            assert seen == ["third words", "second words", "first words", "first words"]
            await stage.press("down", "down")
            assert stage.app.composer.text == "third words"
            await stage.press("down", "down")
            assert stage.app.composer.text == "draft"

    played(play)


def test_a_file_that_is_mentioned_goes_along(tmp_path: Path) -> None:
    async def play() -> None:
        provider = ScriptedProvider("openai_chat", ["Read.", "Seen."], model="gpt-4o")
        config = CONFIG.replace("model: scripted", "model: gpt-4o")
        async with on_stage(tmp_path, provider, config=config) as stage:
            work = tmp_path / "work"
            (work / "src").mkdir()
            (work / "src" / "ports.py").write_text("PORT = 8443\n")
            (work / "picture.png").write_bytes(PNG)
            await stage.type("see @por")
            await stage.until(lambda: "src/ports.py" in stage.text() and "picture.png" not in stage.text())
            await stage.press("tab")
            assert stage.app.composer.text == "see @src/ports.py "
            await stage.press("enter")
            await stage.sees("Read.")
            await stage.idle()
            message = stage.agent.session.view.items[0].message
            assert message.parts == (
                MarkedText("see @src/ports.py", typed=True),
                MarkedText("[file src/ports.py]\nPORT = 8443\n", typed=False),
            )
            assert "▸ attached  src/ports.py" in stage.text()
            assert "8443" not in stage.text()
            await stage.say("and @picture.png, not @nobody")
            await stage.sees("Seen.")
            message = stage.agent.session.view.items[2].message
            image = message.parts[1]
            assert isinstance(image, Image)
            assert (image.media, image.width, image.height) == ("image/png", 3, 2)
            assert "attached  image/png 3x2" in stage.text()

    played(play)


def test_commands_are_completed_and_answered(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["Yes."]) as stage:
            await stage.type("/con")
            await stage.sees("› /context")
            await stage.press("down", "up", "tab")
            assert stage.app.composer.text == "/context "
            await stage.sees("/context clear")
            await stage.press("escape")
            await stage.sees("› /context")
            assert not stage.app.composer.menu_is_open
            await stage.press("enter")
            await stage.sees("in all")
            await stage.type("/cos")
            await stage.sees("› /cost  the cost, by model")
            await stage.press("enter")  # it needs nothing more: it is said
            await stage.sees("today, all sessions")
            await stage.type("/pi")
            await stage.sees("› /pin ")
            await stage.press("enter")  # it does
            assert stage.app.composer.text == "/pin "
            stage.app.composer.replace_text(MessageDraft("/policy "))
            await stage.sees("› /policy ai")
            await stage.press("down", "enter")  # a word that someone went to is taken, not passed over
            assert stage.app.composer.text == "/policy cowagent "
            await stage.say("/contxt")
            await stage.sees("Did you mean /context?")
            await stage.press("f1")
            await stage.sees("open or close all cards")
            await stage.press("pagedown", "pagedown")
            await stage.sees("/resume")
            await stage.say("Hello.")
            await stage.sees("Yes.")

    played(play)


def test_another_session_is_found_and_gone_on_with(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["The port is 8443."], name="ports") as stage:
            await stage.say("Which port?")
            await stage.idle()
        provider = ScriptedProvider("openai_chat", ["Hello.", "As I said."])
        async with on_stage(tmp_path, provider, name="other") as stage:
            await stage.say("Hi.")
            await stage.sees("Hello.")
            await stage.idle()
            await stage.press("f3")
            await stage.sees("Which port?")
            assert "(here)" in stage.text()
            await stage.type("8443")  # said in the middle of it: found by what was said
            await stage.sees("The port is")
            assert "other" not in [choice.value for choice in _picker(stage.app.screen).choices]
            await stage.press("enter")
            await stage.until(lambda: stage.app.session_name == "ports")
            await stage.sees("The port is 8443.")
            await stage.idle()
            await stage.say("Which?")
            await stage.sees("As I said.")
            assert b"The port is 8443." in provider.requests[-1]
            await stage.idle()
            await stage.press("f3", "escape")
            await stage.say("/resume other")
            await stage.sees("Hello.")
            await stage.idle()
            await stage.press("f3")
            await stage.sees("+ a new session")
            await stage.press("down", "up", "enter")
            await stage.until(lambda: stage.app.session_name not in ("other", "ports"))
            assert "Hello." not in stage.text()

    played(play)


def _picker(screen: object) -> Picker:
    assert isinstance(screen, Picker)
    return screen


@pytest.mark.exhaustive
def test_the_model_is_switched_and_the_conversation_carries_over(tmp_path: Path) -> None:
    async def play() -> None:
        other = ScriptedProvider("anthropic", ["By the other."], model="claude-x")
        models = {"anthropic/claude-x": other}
        async with on_stage(tmp_path, ["The port is 8443."], models=models) as stage:
            await stage.say("Which port?")
            await stage.sees("8443")
            await stage.idle()
            await stage.press("f4")
            await stage.until(lambda: isinstance(stage.app.screen, Picker))
            await stage.type("anthropic/claude-x")
            await stage.press("enter")
            await stage.until(lambda: "claude-x" in stage.lines()[-1])
            await stage.idle()
            await stage.say("And now?")
            await stage.sees("By the other.")
            assert b"The port is 8443." in other.requests[0]
            await stage.idle()
            await stage.say("/model openai/broken")
            await stage.sees("It cannot be reached.")
            await stage.idle()
            assert "claude-x" in stage.lines()[-1]  # the old one is open again

    played(play)


def test_scrolling_themes_and_leaving(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, [f"answer {number} " + "\n\nline" * 12 for number in range(4)]) as stage:
            for number in range(4):
                await stage.say(f"question {number}")
                await stage.idle()
            conversation = stage.app.conversation
            bottom = stage.text()
            await stage.press("pageup", "pageup")
            assert stage.text() != bottom
            await stage.press("ctrl+home")
            await stage.sees("▌ question 0")
            await stage.press("pagedown")
            await stage.press("ctrl+end")
            assert stage.text() == bottom
            dark = stage.app.theme
            await stage.press("f5")
            assert stage.app.theme != dark
            assert not stage.app.current_theme.dark
            await stage.settle()
            assert stage.text() == bottom
            await stage.resize(40, 12)
            assert conversation.is_following
            await stage.press("f2")
            await stage.until(lambda: isinstance(stage.app.screen, ContextPane))
            await stage.press("escape")
            await stage.press("ctrl+c")
            assert stage.app.is_running
            for _ in range(2):  # two that follow at once leave, also if the one before is too long ago to count
                stage.app.post_message(events.Key("ctrl+c", None))
            await stage.until(lambda: stage.app.return_value == 0)

    played(play)


def test_ctrl_q_and_the_command_leave(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, []) as stage:
            await stage.press("ctrl+q")
            await stage.until(lambda: stage.app.return_code is not None)
        async with on_stage(tmp_path, []) as stage:
            await stage.say("/quit")
            await stage.until(lambda: stage.app.return_code is not None)

    played(play)


def test_a_defect_shows_no_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, []) as stage:

            def broken() -> None:
                secret = "hunter2-in-a-variable"
                raise ValueError(len(secret))

            stage.app.call_later(broken)
            await stage.settle()

    with pytest.raises(ValueError, match="21"):
        played(play)
    told = capsys.readouterr()
    assert "hunter2" not in told.out + told.err
