"""The commands of the agent: model and policy changed in a chat, as a face carries them out, and what an agent has."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.command_chat import KEY, REGISTRY, USER, Chat, chat_in
from tidegate.agent.runtime import OpenAgent
from tidegate.commands.actions import PickModel, SwitchModel, SwitchPolicy, apply_change
from tidegate.commands.agent_commands import ModelChoice, list_model_choices
from tidegate.commands.registry import CommandAnswer, make_command_context
from tidegate.core.events import NoteAdded
from tidegate.core.usage import Usage
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    yield from chat_in(tmp_path)


# --- /model and /policy -----------------------------------------------------------------------------------------------


@pytest.mark.seed("JUT-06", fixed="the conversation is carried over by the session, whatever the preset")
def test_the_model_is_switched_and_the_conversation_goes_on(chat: Chat) -> None:
    chat.environment["ANTHROPIC_API_KEY"] = KEY

    async def run() -> None:
        opening = chat.opening()
        async with chat.open(opening, ["Noted."]) as agent:
            await chat.say(agent, "The port is 8443.")
            told = await REGISTRY.answer(
                "/model anthropic/claude-sonnet-5", make_command_context(agent, chat.data, opening)
            )
        assert told.action == SwitchModel("anthropic/claude-sonnet-5")
        async with chat.open(apply_change(opening, told.action), ["8443."]) as agent:
            assert (agent.session.model, agent.session.dialect.name) == ("claude-sonnet-5", "anthropic")
            await chat.say(agent, "Which port?")
            provider = agent.connection.provider
            assert isinstance(provider, ScriptedProvider)
            assert b"The port is 8443." in provider.requests[0]
            notes = [each.payload for each in agent.session.log.read() if isinstance(each.payload, NoteAdded)]
            assert [note.topic for note in notes].count("model") == 2

    asyncio.run(run())


def test_a_model_that_cannot_be_asked_is_refused(chat: Chat) -> None:
    told = chat.answers("/model anthropic/claude-sonnet-5", "/model nobody-knows/it", "/model gpt-4.1")
    assert [each.error for each in told] == [True, False, False]
    assert "ANTHROPIC_API_KEY" in told[0].text
    assert told[1].text.startswith("openai/nobody-knows/it answers"), "a provider of its own may have slashes in names"


def test_the_models_that_can_be_picked(chat: Chat) -> None:
    chat.file.write_text(USER + "models: {gpt-4.1: {window: 1000}}\n")
    found: list[ModelChoice] = []

    async def then(agent: OpenAgent) -> None:
        found.extend(list_model_choices(make_command_context(agent, chat.data, chat.opening())))

    (told,) = chat.answers("/model", then=then)
    assert told.action == PickModel()
    assert [each.name for each in found if each.is_current] == ["openai/gpt-4o"]
    names = [each.name for each in found]
    assert {"openai/gpt-4.1", "embedded"} <= set(names)
    assert found[0].window == 20_000
    assert found[0].input is not None
    assert all(str(each) in told.text for each in found)
    assert "There are keys for openai:" in told.text
    assert chat.answers("/models")[0].action == PickModel()


def test_the_policy_is_switched(chat: Chat) -> None:
    async def then(agent: OpenAgent) -> None:
        assert agent.session.policy.name == "jutul"

    told = chat.answers("/policy nosuch", "/policy jutul", then=then)
    assert [each.action for each in told] == [None, SwitchPolicy("jutul")]
    assert told[0].error
    shown = chat.answers("/policy")[0].text
    assert "default  (this one)" in shown
    assert "cowagent" in shown


def test_nothing_is_switched_while_the_agent_works(chat: Chat) -> None:
    async def run() -> list[CommandAnswer]:
        async with chat.open(chat.opening()) as agent:
            place = make_command_context(agent, chat.data, chat.opening(), busy=True)
            return [await REGISTRY.answer(line, place) for line in ("/model x", "/policy jutul", "/config window 1000")]

    assert all(told.error and "at work" in told.text for told in asyncio.run(run()))
    assert chat.file.read_text() == USER


def test_another_session(chat: Chat) -> None:
    async def then(agent: OpenAgent) -> None:
        assert agent.session_name == "copy"
        assert agent.session.log.head >= 3

    chat.answers("/pin Answer in French.", "/fork copy", then=then)


# --- what the agent has -----------------------------------------------------------------------------------------------


def test_skills_and_hooks(chat: Chat) -> None:
    folder = chat.tmp / "work" / ".tidegate" / "skills" / "release"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: release\ndescription: How to cut one\n---\n1. Tag it.\n")
    when, what = "{type: context_pressure, threshold: 0.7}", "{type: log, message: full}"
    hook = f"{{id: warn, condition: {when}, action: {what}, cooldown: 9}}"
    chat.file.write_text(USER + f"execution: {{hooks: [{hook}]}}\n")
    listed, body, none, hooks = chat.answers("/skills", "/skills release", "/skills relese", "/hooks")
    assert listed.text == "release: How to cut one"
    assert body.text == "1. Tag it."
    assert none.error
    assert hooks.text == "warn: on turn_end, if context_pressure 0.7: log, then rests 9 s"


def test_cost_with_the_day_and_its_caps(chat: Chat) -> None:
    chat.file.write_text(USER + "spend: {day: {dollars: 3}, session: {tokens: 99000}}\n")

    async def run() -> str:
        opening = chat.opening()
        spoken = ScriptedAnswer(text="Yes.", usage=Usage(2_000, 10, 500, 0))
        async with chat.open(opening, [spoken]) as agent:
            await chat.say(agent, "Well?")
            return (await REGISTRY.answer("/cost", make_command_context(agent, chat.data, opening))).text

    text = asyncio.run(run())
    assert "gpt-4o: 1 call, 2,000 tokens read (25% from the cache), 10 written, $" in text
    assert "today, all sessions: 2,010 tokens, $" in text
    assert "cap of the session: 99,000 tokens\ncap of the day: $3.00" in text


@pytest.mark.seed("JUT-12", fixed="the command shows what the session measures, whatever the preset")
def test_context_tells_the_parts_of_the_prompt(chat: Chat) -> None:
    (chat.tmp / "work" / "AGENTS.md").write_text("Use tabs. " * 30)
    chat.file.write_text(USER.replace("20000", "60000") + "policy: jutul\n")

    async def run() -> str:
        opening = chat.opening()
        async with chat.open(opening, [ScriptedAnswer(text="Yes.", usage=Usage(2_000, 10, 0, 0))]) as agent:
            await chat.say(agent, "Well?")
            return (await REGISTRY.answer("/context", make_command_context(agent, chat.data, opening))).text

    text = asyncio.run(run())
    assert "last call: 2,000 tokens reported" in text
    for part in (
        "system ",
        "tools ",
        "rules ",
        "user ",
        "the request (2,011 of the 60,000 tokens of the window, 3.352%) is not above the limit of 60%",
        "3.352%) has not reached the limit of 85%",
    ):
        assert part in text


def test_every_command_of_the_chat_is_there(chat: Chat) -> None:
    wanted = (
        "help context config compact undo redo recall pin pins model policy memory sessions resume fork skills hooks"
        " cost trace export explain state add theme plan review init quit"
    )
    assert sorted(each.name for each in REGISTRY) == sorted(wanted.split())
    (told,) = chat.answers("/help")
    assert all(f"/{name}" in told.text for name in wanted.split())
    assert "/config max_steps" not in REGISTRY.complete("/config exec")

    async def then(agent: OpenAgent) -> None:
        place = make_command_context(agent, chat.data, chat.opening())
        assert "/config execution.max_steps" in REGISTRY.complete("/config exec", place)
        assert "/policy jutul" in REGISTRY.complete("/policy j", place)
        assert "/model openai/gpt-4o" in REGISTRY.complete("/model open", place)

    chat.answers(then=then)
