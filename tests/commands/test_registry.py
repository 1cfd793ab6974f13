"""The registry: whatever is typed, the answer is a text that is safe to show."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tidegate import BadInput, DataFolder, Session
from tidegate.commands.catalog import create_command_registry
from tidegate.commands.registry import MAX_ANSWER_CHARS, Command, CommandAnswer, CommandContext, CommandRegistry
from tidegate.core.messages import user_message

KEY = "sk-ant-api03-" + "Ab1" * 20
WINDOW = 20_000


async def _echo(place: CommandContext, rest: str) -> CommandAnswer:
    return CommandAnswer(rest)


async def _fail(place: CommandContext, rest: str) -> CommandAnswer:
    raise ZeroDivisionError(rest)


async def _refuse(place: CommandContext, rest: str) -> CommandAnswer:
    raise BadInput("No.", "Ask again.")


OWN = CommandRegistry(
    [
        Command("echo", "say it again", _echo, "TEXT", ("e", "say"), lambda _: ("one", "two", "onward")),
        Command("fail", "fall over", _fail),
        Command("refuse", "say no", _refuse),
    ]
)


def answer(line: str, registry: CommandRegistry = OWN, place: CommandContext | None = None) -> CommandAnswer:
    return asyncio.run(registry.answer(line, place or CommandContext(Session("m", window=WINDOW))))


def test_help_is_made_from_the_registry() -> None:
    text = answer("/help").text
    assert [line.split()[0] for line in text.splitlines()] == ["/help", "/echo", "/fail", "/refuse"]
    assert "say it again" in text
    assert answer("/help echo").text == "/echo TEXT\nsay it again\nalso: /e, /say"
    whole = answer("/?", create_command_registry()).text
    assert all(f"/{command.name}" in whole and command.description in whole for command in create_command_registry())


@pytest.mark.parametrize("line", ["/echo a b", "echo a b", "  /ECHO   a b ", "/e a b", "/say\na b"])
def test_names_aliases_and_case(line: str) -> None:
    assert answer(line) == CommandAnswer("a b")


@pytest.mark.parametrize(("line", "meant"), [("/ecko x", "echo"), ("/refuze", "refuse"), ("/sya", "say")])
def test_the_nearest_name_is_offered(line: str, meant: str) -> None:
    told = answer(line)
    assert told.error
    assert f"Did you mean /{OWN.find('/' + meant).command.name}?" in told.text  # type: ignore[union-attr]


def test_what_is_nothing_like_a_command() -> None:
    assert answer("/zzzzzzzz") == CommandAnswer("There is no command /zzzzzzzz. /help lists the commands.", True)
    assert answer("").error


def test_what_fails_is_an_answer() -> None:
    assert answer("/refuse") == CommandAnswer("No. Ask again.", True)
    assert answer("/fail secret words") == CommandAnswer(
        "/fail failed: ZeroDivisionError. Try it again; /help fail shows how it is used.", True
    )
    assert answer("/help zzzzzzzz").text == "There is no command zzzzzzzz. /help lists the commands."


def test_completion() -> None:
    assert OWN.complete("/") == ["/help", "/echo", "/fail", "/refuse"]
    assert OWN.complete("/e") == ["/echo"]
    assert OWN.complete("/sa") == ["/say"]
    assert OWN.complete("/echo on") == OWN.complete("/say on") == ["/echo one", "/echo onward"]
    assert OWN.complete("/fail x") == OWN.complete("/nope x") == []


def test_no_two_commands_share_a_name() -> None:
    with pytest.raises(BadInput, match="two commands /e"):
        CommandRegistry([Command("echo", "", _echo, aliases=("e",)), Command("e", "", _echo)])


@settings(max_examples=scaled(40))
@given(st.text(max_size=200))
def test_nothing_a_terminal_obeys_comes_out(text: str) -> None:
    shown = answer(f"/echo \x1b[31m\x9b2J\u202e{text}").text + answer(f"/{text}").text + answer(text).text
    assert not {char for char in shown if (ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160}
    assert "\u202e" not in shown


def test_answers_are_bounded_and_hold_no_secrets(tmp_path: Path) -> None:
    data = DataFolder(tmp_path, secrets=["hunter2-hunter2"])
    with data.open("a", "m", window=WINDOW) as session:
        place = CommandContext(session, "a", data)
        told = answer(f"/echo hunter2-hunter2 {KEY} " + "x" * 3 * MAX_ANSWER_CHARS, place=place).text
    data.close()
    assert "hunter2" not in told
    assert KEY[20:] not in told
    assert len(told) <= MAX_ANSWER_CHARS


def test_a_secret_is_masked_before_it_is_cut(tmp_path: Path) -> None:
    """Wherever the piece ends that is shown, no half of a key is left of it."""
    data = DataFolder(tmp_path, secrets=[])
    registry = create_command_registry()
    with data.open("a", "m", window=WINDOW) as session:
        session.add(user_message("x" * 7_840 + f" token {KEY} " + "word " * 3_000))
        place = CommandContext(session, "a", data)
        ident = next(iter(session.view.items)).message.id
        shown = answer(f"/recall {ident}", registry, place).text
        rest = answer(f"/recall {ident} offset 7880", registry, place).text
        for gap in range(160, 236, 4):
            session.add(user_message(f"x {'y' * 300} zebra{gap} {'z' * gap} {KEY} {'w' * 300}"))
        found = [answer(f"/memory search zebra{gap}", registry, place).text for gap in range(160, 236, 4)]
    data.close()
    assert "go on with" in shown
    for text in (shown, rest, *found):
        assert "Ab1Ab1" not in text
    assert all("zebra" in text for text in found)
