"""May this tool run? What is asked, what is agreed to, and who has the keys meanwhile."""

import re
import threading
from pathlib import Path

from tests.apps.chat.stage import on_stage, played
from tidegate.agent.tools.approval import Question
from tidegate.apps.chat.approving import MOST_LINES, Line, Prompt, asked
from tidegate.apps.chat.grants import Grants
from tidegate.apps.terminal import Shown
from tidegate.core.messages import Call
from tidegate.models.scripted import Scripted, Spoken, Step


def shell(command: str, ident: str = "c") -> Spoken:
    return Spoken(calls=(Call(ident, "shell", f'{{"command": "{command}"}}'),))


def test_what_is_allowed_for_good_is_asked_no_more(tmp_path: Path) -> None:
    async def play() -> None:
        steps: list[Step] = [shell("echo two"), shell("echo 'two'"), shell("ls"), "Done."]
        provider = Scripted("openai_chat", steps)
        async with on_stage(tmp_path, provider) as stage:
            await stage.say("Two?")
            await stage.sees("exactly this command")
            assert stage.app.query_one(Prompt).has_focus
            await stage.press("2")
            await stage.sees("command: ls")
            assert len(provider.requests) == 3
            await stage.press("x")  # typed on: no answer, and not lost
            await stage.sees("› x")
            assert stage.app.talk.busy
            stage.app.query_one(Prompt).focus()
            await stage.press("3")
            await stage.sees("Done.")
            assert b"The user denied this" in provider.requests[-1]

    played(play)


def test_who_is_typing_keeps_the_keys_when_a_question_comes(tmp_path: Path) -> None:
    go = threading.Event()

    def later(request: bytes) -> Spoken:
        assert go.wait(60)
        return shell("ls")

    async def play() -> None:
        async with on_stage(tmp_path, [later, "Done."]) as stage:
            await stage.say("One?")
            await stage.type("my words 1")
            go.set()
            await stage.sees("May shell run?")
            await stage.type("23")
            await stage.sees("my words 123")
            assert stage.app.talk.busy
            await stage.press("shift+tab")
            await stage.press("2")
            await stage.sees("Done.")

    played(play)


def test_what_is_granted_is_no_more_than_it_says() -> None:
    grants = Grants()
    grants.add(Question("shell", {"command": "git status"}, ""))
    grants.add(Question("write", {"path": "a"}, ""))
    grants.add(Question("shell", {"command": "ls; rm -rf x"}, ""))
    commands = (
        "git status",
        "git  'status'",
        "git status -s",
        "git status x",
        "git status; rm x",
        "ls",
        "git status > x",
    )
    allowed = [each for each in commands if grants.covers(Question("shell", {"command": each}, ""))]
    assert allowed == ["git status", "git  'status'"]
    assert grants.covers(Question("write", {"path": "b"}, ""))
    assert not grants.covers(Question("edit", {}, ""))


def test_nobody_agrees_to_half_a_command() -> None:
    shown = Shown()

    def lines(command: str) -> list[Line]:
        return asked(Question("shell", {"command": command}, ""), shown, 40)

    assert lines("ls -la") == [Line("command: ls -la")]
    long = lines(f"ls {'x' * 5000}; rm -rf y")
    assert len(long) == MOST_LINES
    assert long[-1].text.endswith("; rm -rf y")
    (told,) = [line.text for line in long if line.told]
    left = int(re.sub(r"\D", "", told))
    assert left + sum(len(line.text) for line in long if not line.told) == len(f"command: ls {'x' * 5000}; rm -rf y")
    assert lines("ls \x1b[8m; rm -rf y\x1b[0m")[-1] == Line("with 2 control characters that are not shown", told=True)
    assert len(lines("\n".join(map(str, range(90))))) == MOST_LINES
