"""Every key that is bound and every command of the registry is driven here, and what it did is seen.

A key or a command that is added and not driven fails these tests.
"""

import asyncio
import importlib
import pkgutil
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from textual import events
from textual.binding import Binding
from textual.dom import DOMNode
from textual.widgets import OptionList

import tidegate.tui
from tests.tui.stage import Stage, on_stage, played
from tidegate.commands.catalog import create_command_registry
from tidegate.core.messages import Call
from tidegate.datafolder.workspaces import note_workspace
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider, ScriptStep
from tidegate.session.reports.timeline import TimelineEntry
from tidegate.tui.app import ChatApp
from tidegate.tui.approval_prompt import ApprovalPrompt
from tidegate.tui.composer.composer import NEW_LINE_KEYS
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.conversation.conversation import Conversation
from tidegate.tui.key_bindings import KEY_HELP
from tidegate.tui.screens.chat_pickers import Picker
from tidegate.tui.screens.context_pane import ContextPane, TextScreen

Act = Callable[[Stage], Awaitable[None]]
SUMMARY = "## Goal\nThe port is 8443.\n## Next steps\nNone.\n"


APPROVAL_KEYS = {"1", "2", "3", "escape"}
"""The keys of the app that answer a tool's question."""


def keys_of(cls: type[DOMNode]) -> list[str]:
    bound = [binding for binding in cls.__dict__["BINDINGS"] if isinstance(binding, Binding)]
    assert len(bound) == len(cls.__dict__["BINDINGS"])
    return sorted(key for binding in bound for key in binding.key.split(","))


async def drive(stage: Stage, acts: Mapping[str, Act], keys: list[str]) -> None:
    """Each key, with what is expected of it; they go in the order in which they are written down."""
    assert sorted(acts) == keys, "a key is not driven, or is not bound any more"
    for key, seen in acts.items():
        await stage.press(key)
        await seen(stage)


def turns(holds: Callable[[Stage], bool]) -> Act:
    async def seen(stage: Stage) -> None:
        await stage.until(lambda: holds(stage))

    return seen


def top(cls: type) -> Act:
    """Another screen is on top; it is left again."""

    async def seen(stage: Stage) -> None:
        await stage.until(lambda: isinstance(stage.app.screen, cls))
        await stage.press("escape")
        await stage.until(lambda: not isinstance(stage.app.screen, cls))

    return seen


def text(stage: Stage) -> str:
    return stage.app.composer.text


def test_the_conversation(tmp_path: Path) -> None:
    steps: list[ScriptStep] = [
        ScriptedAnswer(calls=(Call("c1", "list", "{}"), Call("c2", "list", "{}"))),
        "A line.\n\n" * 40,
    ]

    async def stopped(stage: Stage) -> None:
        assert text(stage) == ""
        stage.app.conversation.choose(-1)
        assert stage.app.conversation.selected_key  # for escape, which comes next

    acts: dict[str, Act] = {
        "ctrl+o": turns(lambda stage: stage.app.conversation.all_open),
        "ctrl+home": turns(lambda stage: stage.app.conversation.scroll_offset.y == 0),
        "pagedown": turns(lambda stage: stage.app.conversation.scroll_offset.y > 0),
        "ctrl+end": turns(lambda stage: stage.app.conversation.is_following),
        "pageup": turns(lambda stage: not stage.app.conversation.is_following),
        "ctrl+c": stopped,
        "escape": turns(lambda stage: not stage.app.conversation.selected_key),
        "ctrl+up": turns(lambda stage: stage.app.conversation.selected_key.startswith("m")),
        "ctrl+down": turns(lambda stage: not stage.app.conversation.selected_key),
        "ctrl+r": top(Picker),
        "f1": turns(lambda stage: "open or close all cards" in stage.text()),
        "f2": top(ContextPane),
        "f3": top(Picker),
        "f4": top(Picker),
        "f5": turns(lambda stage: not stage.app.current_theme.dark),
        "ctrl+q": turns(lambda stage: stage.app.return_code is not None),
    }

    async def play() -> None:
        async with on_stage(tmp_path, steps) as stage:
            await stage.say("List it twice.")
            await stage.sees("A line.")
            await stage.idle()
            stage.app.composer.replace_text(MessageDraft("gone"))
            await drive(stage, acts, sorted({*keys_of(ChatApp)} - APPROVAL_KEYS | {"escape"}))

    played(play)


def test_a_new_line_is_in_its_place_whatever_the_screen_is_busy_with(tmp_path: Path) -> None:
    """Letters that come behind it do not pass it. The screen is held up until all of them were taken."""

    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            for key in NEW_LINE_KEYS:
                free = asyncio.Event()
                stage.app.screen.call_next(free.wait)
                for each in ("a", key, "b"):
                    stage.app.post_message(events.Key(each, each if len(each) == 1 else None))
                while not text(stage).endswith("b"):
                    await asyncio.sleep(0)
                typed = text(stage)
                free.set()
                assert typed == "a\nb", key
                stage.app.composer.replace_text(MessageDraft())

    played(play)


def test_the_context_pane_and_what_is_read_there(tmp_path: Path) -> None:
    def listing(name: str) -> Act:
        return turns(lambda stage: _pane(stage).listing == name)

    async def reopened(stage: Stage) -> None:
        await stage.until(lambda: not isinstance(stage.app.screen, ContextPane))
        await stage.press("f2")
        await stage.until(lambda: isinstance(stage.app.screen, ContextPane) and _pane(stage).figures is not None)

    async def again(stage: Stage) -> None:
        await stage.until(lambda: _pane(stage).figures is not before["figures"])

    async def undone(stage: Stage) -> None:
        await stage.until(lambda: any(entry.change.is_undone for entry in _entries(stage)))
        before["figures"] = _pane(stage).figures

    async def recalled(stage: Stage) -> None:
        await stage.sees("/recall m")
        await stage.press("f2")
        await reopened_now(stage)

    async def reopened_now(stage: Stage) -> None:
        await stage.until(lambda: isinstance(stage.app.screen, ContextPane) and _pane(stage).figures is not None)

    before: dict[str, object] = {}
    acts: dict[str, Act] = {
        "escape": reopened,
        "q": reopened,
        "f2": reopened,
        "left": listing("timeline"),
        "right": listing("fills"),
        "tab": listing("timeline"),
        "u": undone,
        "a": again,
        "y": turns(lambda stage: not any(entry.change.is_undone for entry in _entries(stage))),
        "r": recalled,
    }

    async def play() -> None:
        provider = ScriptedProvider("openai_chat", ["Noted. " * 300, "Noted. " * 300, SUMMARY, SUMMARY])
        async with on_stage(tmp_path, provider) as stage:
            for words in ("The secret word is heron.", "And the host is db7."):
                await stage.say(f"{words} {'detail ' * 500}")
                await stage.idle()
            await stage.say("/compact")
            await stage.sees("takes it back")
            await stage.press("f2")
            await reopened_now(stage)
            await drive(stage, acts, keys_of(ContextPane))
            for key in keys_of(TextScreen):
                _ = stage.app.push_screen(TextScreen("name", "words", stage.app.sanitizer))
                await stage.until(lambda: isinstance(stage.app.screen, TextScreen))
                await stage.press(key)
                await stage.until(lambda: not isinstance(stage.app.screen, TextScreen))

    played(play)


def _pane(stage: Stage) -> ContextPane:
    assert isinstance(stage.app.screen, ContextPane)
    return stage.app.screen


def _entries(stage: Stage) -> list[TimelineEntry]:
    figures = _pane(stage).figures
    return list(figures.timeline.entries) if figures is not None else []


def test_the_pickers(tmp_path: Path) -> None:
    def at(place: int) -> Act:
        return turns(lambda stage: stage.app.screen.query_one(OptionList).highlighted == place)

    acts: dict[str, Act] = {
        "down": at(1),
        "up": at(0),
        "pagedown": at(8),
        "pageup": at(0),
        "escape": turns(lambda stage: not isinstance(stage.app.screen, Picker)),
    }

    async def play() -> None:
        async with on_stage(tmp_path) as stage:
            for number in range(12):
                with stage.app.data.open(f"s{number}", "gpt-4o") as session:
                    session.add({"role": "user", "content": "Hello."})
                note_workspace(stage.app.data, f"s{number}", tmp_path / "work")
            await stage.press("f3")
            await stage.sees("+ a new session")
            await drive(stage, acts, keys_of(Picker))
            await stage.press("f3")
            await stage.sees("+ a new session")
            await stage.press("s", "7", "enter")  # at once: what was typed counts, not what was listed before it
            await stage.until(lambda: stage.app.session_name == "s7")

    played(play)


def test_a_question(tmp_path: Path) -> None:
    """Of each key whether it agrees; what is agreed to for good is asked no more."""
    agrees = {"1": True, "enter": True, "3": False, "escape": False, "up": False, "down": True, "2": True}
    assert sorted(agrees) == sorted([*keys_of(ApprovalPrompt), *APPROVAL_KEYS]), (
        "a key is not driven, or is not bound any more"
    )
    marks = {"up": "› 3 ", "down": "› 2 "}

    async def play() -> None:
        shell = [
            ScriptedAnswer(calls=(Call(f"c{n}", "shell", f'{{"command": "true{n} x"}}'),)) for n in range(len(agrees))
        ]
        provider = ScriptedProvider("openai_chat", [*shell, "Done."])
        async with on_stage(tmp_path, provider) as stage:
            await stage.say("Do it.")
            for number, (key, agreed) in enumerate(agrees.items()):
                await stage.sees(f"command: true{number} x")
                await stage.press(key)
                if key in marks:
                    await stage.sees(marks[key])
                    await stage.press("enter")
                await stage.until(lambda number=number: len(provider.requests) > number + 1)  # type: ignore[misc] # now
                results = [item.message for item in stage.agent.session.view.items if item.message.role == "tool"]
                assert ("The user denied this" not in str(results[number])) == agreed, key
            await stage.sees("Done.")

    played(play)


KEY_NAMES = {"escape": "esc", "pageup": "pgup", "pagedown": "pgdn"}
"""Keys whose name in the help is not Textual's."""
SECTIONS: dict[type[DOMNode], str] = {
    ChatApp: "",
    ApprovalPrompt: "1, 2, 3",
    Conversation: "ctrl+c",
    ContextPane: "in F2",
    Picker: "in a list",
    TextScreen: "in a long text",
}
"""The classes of the app that bind keys, and the entry of the help that lists them; "" is the whole help."""


def help_entry(name: str) -> str:
    """The line of the help that starts with this name."""
    return next(line for line in KEY_HELP.splitlines() if line.startswith(f"{name}  "))


def test_the_help_lists_every_key_that_is_bound() -> None:
    """Also those of screens and widgets that are added later: all classes of the app are looked at."""
    modules = [module.name for module in pkgutil.walk_packages(tidegate.tui.__path__, "tidegate.tui.")]
    values = [value for name in modules for value in vars(importlib.import_module(name)).values()]
    classes = [value for value in values if isinstance(value, type) and value.__module__.startswith("tidegate.")]
    assert {cls for cls in classes if cls.__dict__.get("BINDINGS")} == set(SECTIONS)
    for cls, name in SECTIONS.items():
        listed = set(re.findall(r"[\w+]+", (help_entry(name) if name else KEY_HELP).lower()))
        listed |= {"ctrl+down"} if "ctrl+up, down" in KEY_HELP else set()
        missing = [key for key in keys_of(cls) if KEY_NAMES.get(key, key) not in listed]
        assert not missing, f"F1 does not list {missing} of {cls.__name__}"
    assert not [key for key in NEW_LINE_KEYS if key not in KEY_HELP]


def test_f1_shows_the_help(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, size=(60, 18)) as stage:
            await stage.press("f1")
            shown: list[str] = []
            for _ in range(12):
                await stage.settle()
                shown += stage.lines()
                await stage.press("pagedown")
            words = set(" ".join(shown).split())
            assert set(KEY_HELP.split()) <= words
            commands = {f"/{command.name}" for command in create_command_registry()}
            assert commands <= words

    played(play)


SAID = {
    "help": ("/help compact", "compact now"),
    "context": ("/context", "by role: user 1, assistant 1"),
    "compact": ("/compact", "Nothing was compacted"),
    "undo": ("/undo", "There is no compaction to undo"),
    "redo": ("/redo", "Nothing was undone"),
    "pin": ("/pin Never restart db7.", "it stays, word for word"),
    "pins": ("/pins", "Never restart db7."),
    "explain": ("/explain", "The policy default is in use"),
    "state": ("/state", "There is no state note yet."),
    "recall": ("/recall Hello", "user: Hello."),
    "memory": ("/memory", "There are no notes yet."),
    "sessions": ("/sessions", "(this one)"),
    "cost": ("/cost", "today, all sessions"),
    "trace": ("/trace 3", "all of it"),
    "export": ("/export", "records, 0 files"),
    "config": ("/config window", "8000"),
    "add": ("/add", "No output yet"),
    "theme": ("/theme none", "There is no theme none"),
    "plan": ("/plan off", "Plan mode is off"),
    "review": ("/review", "No file was edited here."),
    "init": ("/init", "AGENTS.md is written"),
    "skills": ("/skills", "There are no skills"),
    "hooks": ("/hooks", "There are no hooks."),
    "policy": ("/policy jutul", "The policy jutul is used"),
    "model": ("/model openai/other", "other"),
}
"""What is said and what the answer holds."""
GONE: dict[str, tuple[str, Callable[[Stage], bool]]] = {
    "fork": ("/fork copy", lambda stage: stage.app.session_name == "copy" and stage.app.agent_ready),
    "resume": ("/resume build", lambda stage: stage.app.session_name == "build" and stage.app.agent_ready),
    "quit": ("/quit", lambda stage: stage.app.return_code is not None),
}
"""What is said and what has happened then: the answer is of the screen that was."""


def test_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is said once and answered on the screen; what it does to a session is tested beside it."""
    monkeypatch.chdir(tmp_path)  # /export writes where it is said
    assert sorted((*SAID, *GONE)) == sorted(command.name for command in create_command_registry())

    async def play() -> None:
        async with on_stage(tmp_path, ["Hello to you."]) as stage:
            await stage.say("Hello.")
            await stage.sees("Hello to you.")
            await stage.idle()
            for line, words in SAID.values():
                await stage.say(line)
                await stage.until(lambda line=line, words=words: words in _answer(stage, line), line)  # type: ignore[misc] # now
                await stage.until(lambda: stage.app.agent_ready)
            for line, holds in GONE.values():
                await stage.say(line)
                await stage.until(lambda holds=holds: holds(stage), line)  # type: ignore[misc] # bound now

    played(play)


def _answer(stage: Stage, line: str) -> str:
    blocks = [row.block for row in stage.app.conversation.row_cache.rows]
    return "".join(block.text for block in blocks if block.kind in ("answer", "problem") and block.title == line)
