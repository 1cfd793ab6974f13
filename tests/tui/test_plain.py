"""The plain face with a real agent behind it and a model that speaks from a script."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tui.stage import DEADLINE
from tidegate import BadInput, DataFolder
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions
from tidegate.commands.catalog import create_command_registry
from tidegate.core.events import MessageAdded
from tidegate.core.messages import Call, text_of
from tidegate.models.errors.classification import classify_response
from tidegate.models.provider import Provider
from tidegate.models.scripted_provider import BrokenAnswer, ScriptedAnswer, ScriptedProvider, ScriptStep
from tidegate.tui.plain.chat_streams import TypedInput
from tidegate.tui.plain.line_reader import LineReader
from tidegate.tui.plain.plain_chat import PlainChat

CONFIG = """\
agents: [{id: main, model: {provider: openai, model: scripted}}]
window: 8000
models: {scripted: {input: 2, output: 8}}
"""
HUSH = "hush-0123456789abcdef"


class Chatted(NamedTuple):
    status: int
    out: str
    err: str
    asked: list[str]
    name: str


class Desk:
    """Says lines to the plain face and keeps what it printed."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.config = CONFIG
        self._capsys = capsys

    def chat(
        self,
        said: str,
        steps: Sequence[ScriptStep] = (),
        *,
        name: str = "build",
        models: Mapping[str, Provider] | None = None,
        type_on: Callable[[str], str] | None = None,
    ) -> Chatted:
        """`type_on`: a person is there, and this is what they type when they see what stands there so far."""
        (self.workspace / "tidegate.yaml").write_text(self.config)
        environment = {"HOME": str(self.folder), "OPENAI_API_KEY": "sk-none"}
        files = locate_config_files(self.workspace, environment, explicit_file=str(self.workspace / "tidegate.yaml"))
        provider = ScriptedProvider("openai_chat", steps, count=lambda raw: len(raw) // 4)
        data = DataFolder(self.folder / "data", secrets=[HUSH])
        into, out = os.pipe()
        os.write(out, said.encode())

        def provider_for(asked: LaunchOptions) -> Provider:
            if asked.model.endswith("broken"):
                raise BadInput("It cannot be reached.", "Choose another.")
            return (models or {}).get(asked.model, provider)

        async def run() -> int:
            plain = PlainChat(
                data,
                LaunchOptions(files, environment, session_name=name),
                self.workspace,
                TypedInput(LineReader(into), asks=type_on is not None),
                provider_for=provider_for,
            )
            typing = asyncio.ensure_future(self._typed(type_on, out))
            try:
                status = await asyncio.wait_for(plain.run(), DEADLINE)
            finally:
                typing.cancel()
            self.name = plain.session_name
            return status

        try:
            status = asyncio.run(run())
        finally:
            data.close()
            os.close(into)
        printed, errors = self._capsys.readouterr()
        self.seen = getattr(self, "seen", "") + printed
        printed, self.seen = self.seen, ""
        return Chatted(status, printed, errors, [body.decode() for body in provider.requests], self.name)

    async def _typed(self, type_on: Callable[[str], str] | None, out: int) -> None:
        if type_on is None:
            os.close(out)
            return
        self.seen = ""
        try:
            while True:
                self.seen += self._capsys.readouterr().out
                typed = type_on(self.seen)
                if typed:
                    os.write(out, typed.encode())
                await asyncio.sleep(0.01)
        finally:
            os.close(out)

    def said(self, name: str = "build") -> list[str]:
        data = DataFolder(self.folder / "data", secrets=[])
        try:
            return [
                text_of(e.payload.message) for e in data.open_log(name).read() if isinstance(e.payload, MessageAdded)
            ]
        finally:
            data.close()


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capsys)


def test_lines_are_messages_and_answers_are_printed(desk: Desk) -> None:
    (desk.workspace / "port.txt").write_text("8443")
    read = ScriptedAnswer(text="I look.", calls=(Call("c1", "read", '{"path": "port.txt"}'),))
    none = ScriptedAnswer(calls=(Call("c2", "read", '{"path": "none.txt"}'),))
    done = desk.chat("Which port?\n\nAnd\\\nthe host?\n", [read, "It is 8443.", none, "No idea.\n"])
    lines = done.out.splitlines()
    assert lines[:3] == ["I look.", "* read port.txt", "It is 8443."]
    assert lines[3] == "* read none.txt"
    assert lines[4].startswith("* read failed: ")
    assert lines[5:] == ["No idea."]
    assert (done.status, done.err) == (0, "")
    assert desk.said()[0] == "Which port?"
    assert "And\nthe host?" in desk.said()


def test_nothing_is_printed_that_a_terminal_obeys_and_no_secret(desk: Desk) -> None:
    told = f"Red: \x1b[31mred\x1b[0m, title: \x1b]0;mine\x07 and {HUSH}\u202e here.\x9b2J"
    tool = ScriptedAnswer(calls=(Call("c1", "read", f'{{"path": "\\u001b[2J{HUSH}"}}'),))
    done = desk.chat(f"Say {HUSH}.\n/recall {HUSH}\n", [told, "x"])
    other = desk.chat("Read.\n", [tool, "Done."], name="two")
    for text in (done.out, done.err, other.out, other.err):
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
        assert HUSH not in text
    assert "Red: red, title:  and [masked] here." in done.out
    assert "* read [masked]" in other.out


def test_commands_answer_on_the_output_and_fail_on_the_other(desk: Desk) -> None:
    done = desk.chat("Hello.\n/context\n/contxt\n/help\n", ["Hi."])
    assert "by role: user 1, assistant 1" in done.out
    assert all(f"/{command.name}" in done.out for command in create_command_registry())
    assert done.err == "tidegate: There is no command /contxt. Did you mean /context?\n"
    assert done.status == 1


def test_every_command_can_be_given(desk: Desk) -> None:
    """Whatever it answers, the chat goes on."""
    names = [command.name for command in create_command_registry() if command.name not in ("quit", "exit", "export")]
    lines = "".join(f"/{name}\n" for name in names)
    done = desk.chat(f"Hello.\n{lines}Still there?\n/quit\nnever said\n", ["Hi.", "Yes, I am."])
    assert "Yes, I am." in done.out
    assert "failed:" not in done.err
    assert "never said" not in desk.said(done.name)


def test_another_model_policy_and_session(desk: Desk) -> None:
    other = ScriptedProvider("openai_chat", ["I am another."], model="other", count=len)
    said = "Hello.\n/model openai/other\nWho?\n/policy picoclaw\n/model\n/resume first\nAnd here?\n"
    desk.chat("The first.\n", ["First."], name="first")
    done = desk.chat(said, ["Hi.", "Back."], models={"openai/other": other})
    assert "I am another." in done.out
    assert "Back." in done.out, "the other session has its own model"
    assert "Choose one by /model NAME." in done.out
    assert "Hello." in other.requests[0].decode()
    assert done.name == "first"
    assert (done.status, desk.said()[:1]) == (0, ["Hello."])
    assert [text for text in desk.said("first") if text.endswith("?")] == ["And here?"]


def test_what_cannot_be_opened_leaves_what_was(desk: Desk) -> None:
    done = desk.chat("/model openai/broken\nStill there?\n", ["Yes."])
    assert "Yes." in done.out
    assert "It cannot be reached. Choose another." in done.err
    assert done.status == 1


def test_a_failed_turn_is_told_and_the_next_one_goes_on(desk: Desk) -> None:
    broken = BrokenAnswer(ScriptedAnswer(text="It is the linker because"), 2, classify_response(401, b"{}"))
    done = desk.chat("Why?\nAnd now?\n", [broken, "The linker."])
    assert done.out.endswith("\nThe linker.\n")
    assert done.err.startswith("tidegate: ")
    assert done.status == 1


def test_an_answer_that_was_cut_is_told(desk: Desk) -> None:
    done = desk.chat("Why?\n", [ScriptedAnswer(text="Because", stop="length")])
    assert (done.status, done.err) == (
        1,
        "tidegate: The answer reached its maximum length and was cut. Ask it to continue.\n",
    )


def test_compactions_are_told(desk: Desk) -> None:
    desk.config = CONFIG.replace("8000", "2048")
    said = "".join(f"Line {number}: " + "sand and water " * 60 + "\n" for number in range(12))
    done = desk.chat(said, ["Yes."] * 14)  # two are asked for a summary: the words of the user alone fill this window
    assert "tidegate: compacted: " in done.err
    assert done.out == "Yes.\n" * 12
    assert sum(text.startswith("Line ") for text in desk.said()) == 12


def test_a_file_that_is_named_goes_along(desk: Desk) -> None:
    (desk.workspace / "port.txt").write_text("8443")
    done = desk.chat("What is in @port.txt?\n", ["A port."])
    assert "8443" in done.asked[0]


def test_an_agent_for_one_turn_ends_after_it(desk: Desk) -> None:
    desk.config = CONFIG + "execution: {mode: one_shot, greeting: Good morning.}\n"
    done = desk.chat("One.\nTwo.\n", ["Yes."])
    assert (done.status, done.out) == (0, "Good morning.\nYes.\n")
    assert "Two." not in desk.said()


# --- questions --------------------------------------------------------------------------------------------------------

SHELL = ScriptedAnswer(calls=(Call("c1", "shell", '{"command": "echo it ran"}'),))


def test_where_nobody_is_there_what_would_be_asked_is_denied(desk: Desk) -> None:
    done = desk.chat("Run it.\n", [SHELL, "I may not."])
    assert "nobody is there to ask" in done.asked[1]
    assert "* shell denied by default: nobody was there to ask" in done.out
    assert "failed" not in done.out


@pytest.mark.parametrize(("typed", "ran"), [("y", True), ("always", True), ("n", False), ("what", False)])
def test_a_person_is_asked(desk: Desk, typed: str, ran: bool) -> None:
    given: list[str] = []

    def type_on(seen: str) -> str:
        if seen.count("n no: ") > len(given):
            given.append(typed if not given else "n")
            return given[-1] + "\n"
        if "All done." in seen and seen.endswith("> ") and "quit" not in given:
            given.append("quit")
            return "/quit\n"
        return ""

    again = ScriptedAnswer(calls=(Call("c2", "shell", '{"command": "echo it ran"}'),))
    done = desk.chat("Run it.\n", [SHELL, again, "All done."], type_on=type_on)
    assert "May shell run? (no rule allows or denies it)\n  command: echo it ran\n" in done.out
    assert ("it ran" in done.asked[1].split("tool_call_id")[1]) is ran
    assert ("it ran" in done.asked[2].split("tool_call_id")[2]) is (typed == "always")
    assert done.status == 0


@pytest.mark.exhaustive
def test_what_draws_screens_is_not_loaded() -> None:
    heavy = "('textual', 'markdown_it')"
    program = f"import sys, tidegate.tui.plain.plain_chat; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=DEADLINE)
    assert done.stdout == "[]\n"


def test_a_shell_command_of_a_person_runs_and_its_output_is_sent_only_on_request(desk: Desk) -> None:
    lines = iter(["!echo har$((40+2))bor\n", "Hello.\n", "/add\n", "And this?\n", "/quit\n"])
    prompts = 0

    def type_on(seen: str) -> str:
        nonlocal prompts
        if seen.endswith("> ") and seen.count("> ") > prompts:
            prompts = seen.count("> ")
            return next(lines, "")
        return ""

    done = desk.chat("", ["Hi.", "I see."], type_on=type_on)
    assert "har42bor\n[exit code 0]" in done.out
    assert ["har42bor" in request for request in done.asked] == [False, True]
    assert desk.said()[2].startswith("$ echo har$((40+2))bor\nhar42bor")


def test_a_piped_line_is_never_run(desk: Desk) -> None:
    done = desk.chat("!touch made\n", ["I cannot run it."])
    assert not (desk.workspace / "made").exists()
    assert "!touch made" in done.asked[0]
