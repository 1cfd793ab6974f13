"""What the input can do: shell commands, history search, folded pastes, the queue, going back, files and images."""

from pathlib import Path

import pytest
from textual import events

from tests.tui.stage import CONFIG, on_stage, played
from tests.tui.test_keys import PNG
from tests.tui.test_talking import Gate
from tidegate.core.messages import Call, Image, MarkedText, text_of
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.composer.file_mentions import compose_message, match_files
from tidegate.tui.screens.chat_pickers import Picker

LINES = "\n".join(f"line {number}" for number in range(1, 61))


def test_a_shell_command_runs_and_its_output_is_sent_only_on_request(tmp_path: Path) -> None:
    async def play() -> None:
        provider = ScriptedProvider("openai_chat", ["Hello.", "I see."])
        async with on_stage(tmp_path, provider) as stage:
            await stage.type("!printf 'harbor\\033[31m red\\n'; basename $PWD")
            await stage.press("enter")
            await stage.sees("harbor red")
            await stage.sees("┆ work\n   ┆ [exit code 0]")
            assert provider.requests == []
            await stage.say("Hi.")
            await stage.sees("Hello.")
            await stage.idle()
            assert b"harbor" not in provider.requests[0]
            await stage.say("/add")
            await stage.until(lambda: "harbor" in stage.app.composer.text)
            await stage.type("what is it?")
            await stage.press("enter")
            await stage.sees("I see.")
            parts = stage.agent.session.view.items[2].message.parts
            assert [part.typed for part in parts if isinstance(part, MarkedText)] == [False, True]
            assert b"harbor red" in provider.requests[1]
            assert "\x1b" not in stage.text()

    played(play)


def test_a_shell_command_shows_its_time_is_stopped_by_escape_and_sees_no_keys(tmp_path: Path) -> None:
    now = [0.0]

    async def play() -> None:
        async with on_stage(tmp_path, clock=lambda: now[0]) as stage:
            await stage.say("!sleep 600")
            await stage.sees("!sleep 600 · esc stops it")
            now[0] = 65
            await stage.sees("!sleep 600 · 1 min 05 s · esc stops it")
            await stage.say("!echo two")
            await stage.sees("A command is still running")
            await stage.press("escape")
            await stage.sees("Stopped.")
            assert stage.app.turn_state.running_command is None
            stage.app.composer.post_message(events.Paste("!touch made\n\n"))
            await stage.sees("!touch made")
            await stage.press("enter")
            await stage.sees("Pasted text is not run")
            assert not (tmp_path / "work" / "made").exists()
            await stage.press("ctrl+c")
            await stage.say("!echo key=${OPENAI_API_KEY:-none}.")
            await stage.sees("key=none.")

    played(play)


def test_earlier_inputs_are_searched(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, ["a", "b", "c"], name="old") as stage:
            for text in ("find the heron", "count the boats", "paint the pier"):
                await stage.say(text)
                await stage.idle()
        async with on_stage(tmp_path, name="new") as stage:
            await stage.press("ctrl+r")
            await stage.sees("paint the pier")
            await stage.type("boats")
            await stage.until(lambda: "heron" not in stage.text() and "count the boats" in stage.text())
            await stage.press("enter")
            await stage.until(lambda: stage.app.composer.text == "count the boats")

    played(play)


def test_a_long_paste_is_folded_and_sent_in_full(tmp_path: Path) -> None:
    async def play() -> None:
        provider = ScriptedProvider("openai_chat", ["Read.", "Again."])
        async with on_stage(tmp_path, provider) as stage:
            composer = stage.app.composer
            await stage.type("see ")
            composer.post_message(events.Paste(f"{LINES}\x1b[2J"))
            await stage.until(lambda: composer.text == "see [pasted 60 lines]")
            composer.post_message(events.Paste(LINES.replace("line", "row") + "\n"))
            await stage.until(lambda: composer.text == "see [pasted 60 lines][pasted 60 lines, number 2]")
            await stage.press("backspace")
            assert composer.text == "see [pasted 60 lines]"
            await stage.press("enter")
            await stage.sees("Read.")
            await stage.idle()
            assert b"line 1\\nline 2\\n" in provider.requests[0]
            assert b"line 60" in provider.requests[0]
            assert b"[pasted" not in provider.requests[0]
            parts = stage.agent.session.view.items[0].message.parts
            assert [part.typed for part in parts if isinstance(part, MarkedText)] == [False]
            composer.post_message(events.Paste(LINES))
            await stage.until(lambda: composer.text == "[pasted 60 lines]")
            await stage.press("tab")
            assert composer.text == LINES

    played(play)


@pytest.mark.exhaustive
def test_queued_messages_are_edited_in_their_place(tmp_path: Path) -> None:
    gate = Gate("One.")

    async def play() -> None:
        provider = ScriptedProvider("openai_chat", [gate, "Two.", "Three.", "Four."])
        async with on_stage(tmp_path, provider) as stage:
            await stage.say("start")
            await stage.until(gate.waits.is_set)
            for text in ("first", "second", "third", "fourth"):
                await stage.say(text)
            await stage.press("up")
            assert stage.app.composer.text == "fourth"
            await stage.press("ctrl+a", "ctrl+k", "backspace")  # deleted
            for text in ("third", "second"):
                await stage.press("up")
                assert stage.app.composer.text == text
            await stage.type(" and a half")
            await stage.press("enter")
            await stage.sees("queued: second and a half")
            gate.go.set()
            await stage.sees("Four.")
            await stage.idle()
            said = [text_of(item.message) for item in stage.agent.session.view.items if item.message.role == "user"]
            assert said == ["start", "first", "second and a half", "third"]

    played(play)


def test_a_running_tool_shows_its_time_and_how_to_cancel_it(tmp_path: Path) -> None:
    now = [0.0]

    async def play() -> None:
        call = ScriptedAnswer(calls=(Call("c1", "shell", '{"command": "sleep 600"}'),))
        async with on_stage(tmp_path, [call, "Done."], clock=lambda: now[0]) as stage:
            await stage.say("Wait.")
            await stage.sees("May shell run?")
            now[0] = 100
            await stage.sees("working 1 min 40 s")
            assert "esc cancels" not in stage.text()
            await stage.press("1")
            await stage.sees("shell sleep 600 · esc cancels")
            now[0] = 112
            await stage.sees("working 1 min 52 s · esc interrupts")
            await stage.sees("shell sleep 600 · 12 s · esc cancels")
            await stage.press("escape")
            await stage.sees("Interrupted.")
            assert "sleep 600 · 12 s" not in stage.text()
            await stage.say("Go on.")
            await stage.sees("Done.")
            assert "shell  sleep 600  interrupted" in stage.text()
            assert "repaired  1 call had no result" in stage.text()
            assert "compacted  repair" not in stage.text()

    played(play)


def test_escape_twice_goes_back_to_a_message_in_a_copy(tmp_path: Path) -> None:
    async def play() -> None:
        provider = ScriptedProvider("openai_chat", ["One.", "Two.", "Other."])
        async with on_stage(tmp_path, provider) as stage:
            for text in ("first question", "second question"):
                await stage.say(text)
                await stage.idle()
            await stage.press("escape")
            await stage.type("a")  # typing in between: not twice
            await stage.press("ctrl+c", "escape")
            assert not isinstance(stage.app.screen, Picker)
            await stage.press("escape")
            await stage.until(lambda: isinstance(stage.app.screen, Picker) and bool(stage.app.screen.choices))
            await stage.press("enter")
            await stage.until(lambda: stage.app.session_name != "build" and stage.app.agent_ready)
            await stage.until(lambda: stage.app.composer.text == "second question")
            await stage.type(", changed")
            await stage.press("enter")
            await stage.sees("Other.")
            await stage.idle()
            said = [text_of(item.message) for item in stage.agent.session.view.items]
            assert said == ["first question", "One.", "second question, changed", "Other."]
            assert stage.app.data.store.head("build") > 0
            await stage.press("escape", "escape")
            await stage.until(lambda: isinstance(stage.app.screen, Picker) and bool(stage.app.screen.choices))
            await stage.press("down", "enter")  # the first message: nothing is before it
            await stage.until(lambda: stage.app.composer.text == "first question")
            await stage.until(lambda: stage.app.agent_ready and not stage.agent.session.view.items)

    played(play)


def test_a_file_is_found_by_some_of_its_letters_with_its_size_in_tokens(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            (tmp_path / "work" / "src").mkdir()
            (tmp_path / "work" / "src" / "turn_state.py").write_text("word " * 2000)
            await stage.type("see @tstate")
            await stage.sees("src/turn_state.py  about ")
            assert "k tokens" in next(line for line in stage.lines() if "turn_state.py  about" in line)
            await stage.press("tab")
            await stage.sees("files: about ")
            await stage.press("ctrl+c")
            await stage.until(lambda: "files: about" not in stage.text())

    played(play)


def test_the_best_file_is_offered_first() -> None:
    files = ["docs/tool_list.md", "src/turn_state.py", "src/state.py", "a/t/s/other.py", "tests/ts.py"]
    assert match_files(files, "ts")[:3] == ["tests/ts.py", "src/turn_state.py", "docs/tool_list.md"]
    assert match_files(files, "state")[0] == "src/state.py"
    assert match_files(files, "zq") == []


def test_an_image_is_attached_by_its_path_only_if_the_path_was_typed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "my pictures"
    elsewhere.mkdir()
    (elsewhere / "shot one.png").write_bytes(PNG)
    (elsewhere / "notes.txt").write_text("secret")

    async def play() -> None:
        config = CONFIG.replace("model: scripted", "model: gpt-4o")
        provider = ScriptedProvider("openai_chat", ["Seen."], model="gpt-4o")
        async with on_stage(tmp_path, provider, config=config) as stage:
            dropped = str(elsewhere / "shot one.png").replace(" ", "\\ ")
            stage.app.composer.post_message(events.Paste(dropped))
            await stage.until(lambda: stage.app.composer.text == f'@"{elsewhere}/shot one.png" ')
            await stage.press("enter")
            await stage.sees("Seen.")
            assert any(isinstance(part, Image) for part in stage.agent.session.view.items[0].message.parts)

    played(play)
    work = tmp_path / "work"
    mention = f'@"{elsewhere}/shot one.png"'
    assert len(compose_message(MessageDraft(mention), work).message.parts) == 2
    assert len(compose_message(MessageDraft.from_pasted(mention), work).message.parts) == 1
    assert len(compose_message(MessageDraft(f'@"{elsewhere}/notes.txt"'), work).message.parts) == 1


@pytest.mark.parametrize("data", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n" + bytes(4)])
def test_a_broken_image_is_not_attached(data: bytes, tmp_path: Path) -> None:
    """A provider would refuse it, and every later request of the session with it."""
    (tmp_path / "shot.png").write_bytes(data)
    composed = compose_message(MessageDraft("look at @shot.png"), tmp_path)
    assert not any(isinstance(part, Image) for part in composed.message.parts)
    assert composed.problems == ["shot.png was not attached: it is not a PNG, JPEG, GIF or WebP."]
