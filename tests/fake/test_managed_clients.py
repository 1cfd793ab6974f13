"""`tidegate.managed` with the providers' own SDKs against the strict fake server. The SDKs are imported late."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from tests.fake.server import KEY, CutAt, Fake, Json, Scale, Step, strings
from tests.fake.test_sdks import CALLS, CHAT_TOOLS, CLAUDE_TOOLS, HELLO, RESPONSES_TOOLS
from tests.fake.words import Refusal, busy, refusal
from tests.gateway.scripted_client import step_answer
from tests.gateway.serving import DEADLINE
from tests.integrations.examples import EXAMPLES, check_example
from tests.integrations.shared_checks import MISPLACED, count_thinking
from tests.models.error_texts import ErrorText, sample_error_texts
from tests.scale import mark_all_but, scaled
from tidegate import BadInput, Call, DataFolder, Message, Result, managed
from tidegate.core.events import BranchStarted, Event, MessageAdded, NoteAdded, UsageReported
from tidegate.core.messages import text_of
from tidegate.store.memory import MemoryStore
from tidegate.wire.anthropic import models
from tidegate.wire.request_check import RequestCheck
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer
from tidegate.wire.validation.faults import RequestFault

if TYPE_CHECKING:
    import anthropic
    import openai

pytestmark = pytest.mark.sdk

WIRES = ["openai_chat", "openai_responses", "anthropic"]
ONE = {"role": "assistant", "content": "One."}
GUIDE = Path(__file__).parents[2] / "docs" / "integrations.md"
EXAMPLE = "sdk_client_loop.py"
STEPS, PARALLEL = scaled(6, 25), 8
"""48 results. Each call of an SDK takes time in proportion to the list, so eight come at once."""
PAGE = "The tide table of the harbor lists high water and low water for each day. " * 60


def run_with(server: Fake, use: Callable[[str], Awaitable[None]]) -> Fake:
    """Run `use` with the server's URL."""

    async def run() -> None:
        async with server:
            await use(server.url)

    asyncio.run(run())
    return server


def run_sync(server: Fake, use: Callable[[str], None]) -> Fake:
    return run_with(server, lambda url: asyncio.to_thread(use, url))


def make_client(wire: str, url: str, **more: Any) -> Any:
    import anthropic
    import openai

    kind = anthropic.Anthropic if wire == "anthropic" else openai.OpenAI
    return kind(**{"api_key": KEY, "base_url": url, "max_retries": 0, **more})


def make_async_client(wire: str, url: str) -> Any:
    import anthropic
    import openai

    kind = anthropic.AsyncAnthropic if wire == "anthropic" else openai.AsyncOpenAI
    return kind(api_key=KEY, base_url=url, max_retries=0)


def make_arguments(wire: str, messages: list[Any]) -> Json:
    if wire == "openai_responses":
        return {"model": "gpt-5.4", "input": messages, "tools": RESPONSES_TOOLS, "store": False}
    if wire == "openai_chat":
        return {"model": "gpt-4o", "messages": messages, "tools": CHAT_TOOLS}
    return {"model": "claude-opus-4-8", "max_tokens": 500, "messages": messages, "tools": CLAUDE_TOOLS}


def find_methods(wire: str, client: Any) -> Any:
    if wire == "anthropic":
        return client.messages
    return client.responses if wire == "openai_responses" else client.chat.completions


def take_reply(wire: str, reply: Any, messages: list[Any]) -> list[str]:
    """Append the SDK's own objects of a reply to the list, as a loop does. Return the ids of its calls."""
    if wire == "openai_responses":
        messages += reply.output
        return [item.call_id for item in reply.output if item.type == "function_call"]
    if wire == "openai_chat":
        messages.append(reply.choices[0].message)
        return [call.id for call in reply.choices[0].message.tool_calls or []]
    messages.append({"role": "assistant", "content": reply.content})
    return [block.id for block in reply.content if block.type == "tool_use"]


def take_results(wire: str, calls: list[str], text: str, messages: list[Any]) -> None:
    if wire == "openai_responses":
        messages += ({"type": "function_call_output", "call_id": call, "output": text} for call in calls)
    elif wire == "openai_chat":
        messages += ({"role": "tool", "tool_call_id": call, "content": text} for call in calls)
    else:
        blocks = [{"type": "tool_result", "tool_use_id": call, "content": text} for call in calls]
        messages.append({"role": "user", "content": blocks})


def make_script() -> list[Step]:
    numbers = [[step * PARALLEL + place for place in range(PARALLEL)] for step in range(STEPS)]
    calls = (tuple(Call(f"c{number}", "read", f'{{"page":{number}}}') for number in some) for some in numbers)
    return [*(ScriptedAnswer(calls=some) for some in calls), "Done."]


def read_events(data: Path, session: str = "") -> list[Event]:
    """The events of a session, or of the only one."""
    with DataFolder(data) as folder:
        (name,) = [session] if session else [info.name for info in folder.store.sessions()]
        return list(folder.open_conversation(name).log.read())


def logged_messages(events: list[Event]) -> list[Message]:
    return [event.payload.message for event in events if isinstance(event.payload, MessageAdded)]


def run_loop(wire: str, client: Any, messages: list[Any]) -> None:
    """An agent's own loop: call the model until it has no more calls."""
    while True:
        reply = find_methods(wire, client).create(**make_arguments(wire, messages))
        calls = take_reply(wire, reply, messages)
        if not calls:
            return
        take_results(wire, calls, PAGE, messages)


@pytest.mark.parametrize("wire", mark_all_but(WIRES, "anthropic"))
def test_a_long_loop_fits_a_small_window(wire: str, tmp_path: Path) -> None:
    messages: list[Any] = list(HELLO)

    def use(url: str) -> None:
        with managed(make_client(wire, url), tmp_path, window=16_000) as client:
            run_loop(wire, client, messages)

    server = run_sync(Fake(wire, make_script(), window=16_000), use)
    assert server.refused == []
    assert len(server.seen) == STEPS + 1
    assert len(server.seen[-1].raw) < len(PAGE) * STEPS * PARALLEL / 2
    events = read_events(tmp_path)
    parts = [part for message in logged_messages(events) for part in message.parts]
    results = [part for part in parts if isinstance(part, Result)]
    assert [result.call_id for result in results] == [f"c{number}" for number in range(STEPS * PARALLEL)]
    assert {text_of(message) for message in logged_messages(events) if message.role == "tool"} == {PAGE}
    assert not any(isinstance(event.payload, BranchStarted) for event in events)
    assert len([event for event in events if isinstance(event.payload, UsageReported)]) == STEPS + 1


def test_a_ledger_that_only_said_how_to_recall_is_left_out(tmp_path: Path) -> None:
    """Managed clients offer no recall. Equal calls leave nothing else for the ledger to say."""
    steps = [ScriptedAnswer(calls=(Call(f"c{number}", "read", "{}"),)) for number in range(40)]

    def use(url: str) -> None:
        with managed(make_client("openai_chat", url), tmp_path, window=16_000) as client:
            run_loop("openai_chat", client, [{"role": "user", "content": "Why is it slow?"}])

    server = run_sync(Fake("openai_chat", [*steps, "Done."]), use)
    sent = "\n".join(strings(server.seen[-1].body))
    assert len(server.seen) == 41
    assert len(sent) < 40 * len(PAGE) / 2, "old results left"
    assert not re.search(r"\[Ledger[^\]]*\]\s*\[End of the ledger\]", sent)


REMINDER = (
    "<system-reminder>\n" + "This may or may not be relevant. Use it for the task.\n" * 200 + "</system-reminder>"
)
TASK, RULE = "Read the tide tables.", "Never push to main."


@pytest.mark.parametrize("wire", mark_all_but(WIRES, "anthropic"))
def test_a_rule_behind_the_reminders_of_a_client_is_kept(wire: str, tmp_path: Path) -> None:
    """As Claude Code and its SDK write it: 11 kB in front of the user's words, and reminders beside results."""
    kind = "input_text" if wire == "openai_responses" else "text"
    texts = [{"type": kind, "text": text} for text in (REMINDER, f"{TASK} {RULE}")]
    messages: list[Any] = [{"role": "user", "content": texts}]
    rules: list[str] = []

    def use(url: str) -> None:
        with managed(make_client(wire, url), tmp_path, session="rules", window=16_000) as client:
            run_loop(wire, client, messages)
            messages.append({"role": "user", "content": "Now the other half."})
            run_loop(wire, client, messages)
        with DataFolder(tmp_path) as data, data.open("rules", "gpt-4o") as session:
            rules.extend(rule.text for rule in session.rules)

    server = run_sync(Fake(wire, [*make_script(), *make_script()], window=16_000), use)
    assert server.refused == []
    assert len(server.seen) == 2 * STEPS + 2
    assert all(TASK in seen.raw.decode() and RULE in seen.raw.decode() for seen in server.seen)
    assert len(server.seen[-1].raw) < len(PAGE) * STEPS * PARALLEL / 2
    assert rules == [RULE]


@pytest.mark.parametrize("wire", mark_all_but(WIRES, "anthropic"))
def test_a_past_that_the_caller_changed_is_noticed(wire: str, tmp_path: Path) -> None:
    def use(url: str) -> None:
        with managed(make_client(wire, url), tmp_path, session="changed", window=16_000) as client:
            messages: list[Any] = list(HELLO)
            run_loop(wire, client, messages)
            messages[0] = {"role": "user", "content": "Hullo"}
            messages.append({"role": "user", "content": "Go on."})
            run_loop(wire, client, messages)

    server = run_sync(Fake(wire, [*make_script(), "Done again."], window=16_000), use)
    assert server.refused == []
    assert b"Hullo" in server.seen[-1].raw
    events = read_events(tmp_path)
    assert len([event for event in events if isinstance(event.payload, BranchStarted)]) == 1
    assert [text_of(message) for message in logged_messages(events)].count("Hullo") == 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_that_fits_is_the_sdks_own(wire: str, tmp_path: Path) -> None:
    def use(url: str) -> None:
        with make_client(wire, url) as plain:
            find_methods(wire, plain).create(**make_arguments(wire, list(HELLO)), extra_body={"user_tag": "x"})
            copy = managed(plain, tmp_path)
            find_methods(wire, copy).create(**make_arguments(wire, list(HELLO)), extra_body={"user_tag": "x"})
            find_methods(wire, plain).create(**make_arguments(wire, [{"role": "user", "content": "not managed"}]))
            copy.close()

    server = run_sync(Fake(wire, ["One.", "Two.", "Three."]), use)
    first, second, _ = server.seen
    assert second.raw == first.raw
    assert {name: second.headers[name] for name in first.headers} == first.headers
    assert [text_of(each) for each in logged_messages(read_events(tmp_path))] == ["Hello", "Two."]


@pytest.mark.parametrize("wire", WIRES)
def test_async_and_streams(wire: str, tmp_path: Path) -> None:
    messages: list[Any] = list(HELLO)

    async def use(url: str) -> None:
        async with managed(make_async_client(wire, url), tmp_path) as client:
            calls = take_reply(
                wire, await find_methods(wire, client).create(**make_arguments(wire, messages)), messages
            )
            take_results(wire, calls, "done", messages)
            stream = await find_methods(wire, client).create(**make_arguments(wire, messages), stream=True)
            assert len([chunk async for chunk in stream]) > 1
            messages.append({"role": "assistant", "content": "Both are read."})
            messages.append({"role": "user", "content": "Go on."})
            async with find_methods(wire, client).stream(**make_arguments(wire, messages)) as events:
                assert len([event async for event in events]) > 1

    server = run_with(Fake(wire, [CALLS, "Both are read.", "The end."]), use)
    assert server.refused == []
    check_conversation(tmp_path)


def check_conversation(data: Path) -> None:
    """The three answers are logged once each, on one branch, with their usage."""
    events = read_events(data)
    said = [text_of(each) for each in logged_messages(events) if each.role == "assistant"]
    assert said == ["Reading both.", "Both are read.", "The end."]
    assert not any(isinstance(event.payload, BranchStarted) for event in events)
    assert sum(isinstance(event.payload, UsageReported) for event in events) >= 2


@pytest.mark.parametrize("wire", WIRES)
def test_sync_streams(wire: str, tmp_path: Path) -> None:
    messages: list[Any] = list(HELLO)

    def use(url: str) -> None:
        with managed(make_client(wire, url), tmp_path) as client:
            calls = take_reply(wire, find_methods(wire, client).create(**make_arguments(wire, messages)), messages)
            take_results(wire, calls, "done", messages)
            assert len(list(find_methods(wire, client).create(**make_arguments(wire, messages), stream=True))) > 1
            messages.append({"role": "assistant", "content": "Both are read."})
            messages.append({"role": "user", "content": "Go on."})
            with find_methods(wire, client).stream(**make_arguments(wire, messages)) as events:
                assert len(list(events)) > 1

    server = run_sync(Fake(wire, [CALLS, "Both are read.", "The end."]), use)
    assert server.refused == []
    check_conversation(tmp_path)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_for_length_is_retried_shorter(wire: str, stream: bool, tmp_path: Path) -> None:
    """The window that was given is larger than the server's."""
    messages: list[Any] = list(HELLO)
    for number in range(12):
        messages.append({"role": "assistant", "content": f"Page {number}: {PAGE}"})
        messages.append({"role": "user", "content": "Next."})

    def use(url: str) -> None:
        with managed(make_client(wire, url), tmp_path, window=50_000) as client:
            reply = find_methods(wire, client).create(**make_arguments(wire, messages), stream=stream)
            assert list(reply)

    server = run_sync(Fake(wire, ["Short enough."], window=3_000), use)
    assert 1 <= len(server.refused) <= 2
    assert text_of(logged_messages(read_events(tmp_path))[-1]) == "Short enough."


def test_an_async_refusal_for_length_is_retried_shorter(tmp_path: Path) -> None:
    roles = ["user", "assistant"] * 15
    messages: list[Any] = [{"role": role, "content": f"{number} {PAGE}"} for number, role in enumerate(roles)]
    messages.append({"role": "user", "content": "Go on."})

    async def use(url: str) -> None:
        async with managed(make_async_client("openai_chat", url), tmp_path, window=50_000) as client:
            stream = await client.chat.completions.create(model="gpt-4o", messages=messages, stream=True)
            assert len([chunk async for chunk in stream]) > 1

    server = run_with(Fake("openai_chat", ["Short enough."], window=5_000), use)
    assert 1 <= len(server.refused) <= 2


def test_refusals_are_counted_for_each_request_and_their_window_is_remembered(tmp_path: Path) -> None:
    """Six refusals in one turn, which name no number, and another conversation with the same client."""
    words = refusal("openai_responses", 400, "Your input exceeds the context window of this model.")
    script: list[Step] = [step for _ in range(3) for step in (words, words, CALLS)]

    def use(url: str) -> None:
        with managed(make_client("openai_responses", url), tmp_path, window=50_000) as client:
            messages: list[Any] = [{"role": "user", "content": f"{PAGE} {PAGE}"}]
            for _ in range(3):
                reply = client.responses.create(**make_arguments("openai_responses", messages))
                take_results("openai_responses", take_reply("openai_responses", reply, messages), PAGE, messages)
            client.responses.create(**make_arguments("openai_responses", messages))
            client.responses.create(model="gpt-4o", input=[{"role": "user", "content": "Another."}])

    server = run_sync(Fake("openai_responses", [*script, "The end.", "Yes."]), use)
    assert len(server.refused) == 6
    assert len(server.seen) == 11


ODD_WORDS = "Nope. 31 sheets of paper do not go into this envelope."


def list_pages(pages: int, title: str = "the harbor") -> list[Any]:
    roles = ["user", "assistant"]
    return [{"role": roles[n % 2], "content": f"Page {n} of {title}. {PAGE[:975]}"} for n in range(pages)]


def count_pages(server: Fake) -> list[int]:
    return [seen.raw.count(b"The tide table") // 13 for seen in server.seen]


@pytest.mark.parametrize("wire", mark_all_but(WIRES, "anthropic"))
@pytest.mark.parametrize("stream", [False, True])
def test_unknown_words_are_remembered_if_a_smaller_request_was_accepted(
    wire: str, stream: bool, tmp_path: Path
) -> None:
    def answer(body: Json) -> Step:
        return refusal(wire, 422, ODD_WORDS) if str(body).count("The tide table") > 13 * 28 else "Fine."

    def use(url: str) -> None:
        with managed(make_client(wire, url), tmp_path, window=24_000) as client:
            for title in ("the harbor", "the bay"):
                messages = list_pages(31, title)
                assert list(find_methods(wire, client).create(**make_arguments(wire, messages), stream=stream))
            other = make_arguments(wire, list_pages(31, "the river")) | {"model": "gpt-4o-mini"}
            assert list(find_methods(wire, client).create(**other, stream=stream))

    server = run_sync(Fake(wire, answer), use)
    pages = count_pages(server)
    assert len(pages) == 5
    assert pages[0] == pages[3] == 31
    assert pages[1] < 16
    assert pages[1] < pages[2] < 29, "a ceiling"
    assert pages[1] < pages[4] < 29, "the words are known, for every model of the server"


@pytest.mark.parametrize("wire", mark_all_but(WIRES, "anthropic"))
@pytest.mark.parametrize("way", ["whole", "stream", "async"])
@pytest.mark.parametrize("status", [400, 404])
def test_if_a_smaller_request_is_refused_too_the_first_refusal_is_raised(
    wire: str, way: str, status: int, tmp_path: Path
) -> None:
    """Once for the same words. The conversation keeps its view."""
    import anthropic
    import openai

    texts = iter(["odd-words-1", "other-words", "odd-words-2"])
    errors: Any = (anthropic.APIStatusError, openai.APIStatusError)
    raised: list[Any] = []

    def answer(body: Json) -> Step:
        text = next(texts, "")
        return refusal(wire, status, text)._replace(headers=(("request-id", text),)) if text else "Fine."

    async def use(url: str) -> None:
        client = make_async_client(wire, url) if way == "async" else make_client(wire, url)
        copy = managed(client, tmp_path, window=24_000)
        arguments = make_arguments(wire, list_pages(31)) | {"stream": way != "whole"}
        for _ in range(4):
            try:
                called = find_methods(wire, copy).create
                await (called(**arguments) if way == "async" else asyncio.to_thread(called, **arguments))
            except errors as error:
                raised.append(error)
            else:
                break
        await (copy.close() if way == "async" else asyncio.to_thread(copy.close))

    server = run_with(Fake(wire, answer), use)
    assert "odd-words-1" in raised[0].response.text
    assert raised[0].response.headers["request-id"] == "odd-words-1"
    assert {error.status_code for error in raised} == {status}
    if status == 400:
        assert count_pages(server)[0] == 31
        assert count_pages(server)[1] < 16
        assert ["odd-words-2" in error.response.text for error in raised] == [False, True]
        assert count_pages(server)[2:] == [31, 31]
    else:
        assert count_pages(server) == [31] * 4


def check_error_texts(wire: str, texts: list[ErrorText], folder: Path) -> None:
    """Judged by the requests that the server gets: it refuses with each text, those about length only long requests."""
    import anthropic
    import openai

    errors: Any = (anthropic.APIStatusError, openai.APIStatusError)
    sent: list[list[int]] = []
    statuses: list[int] = []

    def answer(body: Json) -> Step:
        row, size = texts[len(sent) - 1], str(body).count("The tide table")
        sent[-1].append(size)
        if row.kind == "overflow" and size < sent[-1][0]:
            return "Fine."
        text = row.text.encode()
        return Refusal(row.status or 400, text, "application/json" if text[:1] in b"{[" else "text/plain")

    def use(url: str) -> None:
        with DataFolder(folder, store=MemoryStore()) as data, make_client(wire, url) as client:
            for number in range(len(texts)):
                sent.append([])
                try:
                    create = find_methods(wire, managed(client, data, window=8_000)).create
                    create(**make_arguments(wire, list_pages(21, f"harbor {number}")))
                    statuses.append(200)
                except errors as error:
                    statuses.append(error.status_code)

    run_sync(Fake(wire, answer), use)
    wrong = []
    for row, sizes, status in zip(texts, sent, statuses, strict=True):
        is_right = status == 200 if row.kind == "overflow" else status == (row.status or 400) and len(sizes) <= 2
        if not is_right:
            wrong.append(f"{row.kind} {row.status} {status} {sizes} {row.text[:200]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("wire", mark_all_but(WIRES, "anthropic"))
def test_error_texts_about_length_lead_to_a_smaller_request_and_others_to_one_call_more_at_most(
    wire: str, tmp_path: Path
) -> None:
    check_error_texts(wire, sample_error_texts(), tmp_path)


def test_errors_of_the_sdk_are_unchanged(tmp_path: Path) -> None:
    import openai

    def use(url: str) -> None:
        with managed(make_client("openai_chat", url), tmp_path) as client:
            with pytest.raises(openai.RateLimitError) as slow:
                client.chat.completions.create(model="gpt-4o", messages=HELLO)
            assert slow.value.response.headers["retry-after"] == "7"
            with pytest.raises(openai.AuthenticationError):
                client.with_options(api_key="sk-other").chat.completions.create(model="gpt-4o", messages=HELLO)
            with pytest.raises(openai.BadRequestError):
                client.chat.completions.create(model="gpt-4o", messages=[])

    run_sync(Fake("openai_chat", [busy("openai_chat", 429, "7")]), use)


def test_retries_of_the_sdk_log_a_message_once(tmp_path: Path) -> None:
    def use(url: str) -> None:
        with managed(make_client("openai_chat", url, max_retries=2), tmp_path) as client:
            reply = client.chat.completions.create(model="gpt-4o", messages=HELLO)
            assert reply.choices[0].message.content == "At last."

    run_sync(Fake("openai_chat", [busy("openai_chat", 503, "0"), "At last."]), use)
    assert [text_of(each) for each in logged_messages(read_events(tmp_path))] == ["Hello", "At last."]


def test_conversations_of_one_client_have_sessions_of_their_own(tmp_path: Path) -> None:
    """They begin alike, and are answered alike. A client with a name of its own has one session."""
    histories: list[list[Any]] = [[*HELLO, ONE, {"role": "user", "content": text}] for text in ("Mine.", "Yours.")]

    def use(url: str) -> None:
        with managed(make_client("openai_chat", url), tmp_path) as client, ThreadPoolExecutor(2) as pool:
            for messages in ([HELLO, HELLO], histories):
                calls = [
                    pool.submit(client.chat.completions.create, model="gpt-4o", messages=each) for each in messages
                ]
                assert all(call.result(60).choices[0].message.content == "One." for call in calls)

    run_sync(Fake("openai_chat", lambda body: "One."), use)
    with DataFolder(tmp_path) as data:
        names = [info.name for info in data.store.sessions()]
        logged = [logged_messages(list(data.open_log(name).read())) for name in names]
    assert sorted([text_of(each) for each in messages][2:] for messages in logged) == [
        ["Mine.", "One."],
        ["Yours.", "One."],
    ]
    assert all(name.startswith("sdk-") for name in names)


def test_an_answer_that_breaks_off_is_kept_in_part(tmp_path: Path) -> None:
    def use(url: str) -> None:
        with managed(make_client("anthropic", url), tmp_path) as client:
            with client.messages.stream(model="claude-opus-4-8", max_tokens=100, messages=HELLO) as stream:
                for text in stream.text_stream:
                    assert text
                    break
            reply = client.messages.create(model="claude-opus-4-8", max_tokens=100, messages=HELLO)
            assert reply.stop_reason == "end_turn"

    run_sync(Fake("anthropic", [CutAt(ScriptedAnswer(text="Good morning, all of you."), 700), "Whole."]), use)
    shown = [(text_of(each), each.agent_visible) for each in logged_messages(read_events(tmp_path))]
    assert shown[0] == ("Hello", True)
    assert shown[-1] == ("Whole.", True)
    assert len(shown) == 3
    assert "Good morning".startswith(shown[1][0][:4])
    assert not shown[1][1]


RESUMED = """
import sys, openai, tidegate
url, data, key = sys.argv[1:]
with tidegate.managed(openai.OpenAI(api_key=key, base_url=url), data, session="work", window=16_000) as client:
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "One."},
                {"role": "user", "content": "And then?"}]
    print(client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message.content)
"""


@pytest.mark.exhaustive
def test_another_process_resumes_the_session(tmp_path: Path) -> None:
    def use(url: str) -> None:
        with managed(make_client("openai_chat", url), tmp_path, session="work", window=16_000) as client:
            client.chat.completions.create(model="gpt-4o", messages=HELLO)
        command = [sys.executable, "-c", RESUMED, url, str(tmp_path), KEY]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE)
        assert done.stdout == "Two.\n"

    run_sync(Fake("openai_chat", ["One.", "Two."]), use)
    events = read_events(tmp_path, "work")
    assert [text_of(each) for each in logged_messages(events)] == ["Hello", "One.", "And then?", "Two."]
    assert not any(isinstance(event.payload, BranchStarted) for event in events)


@pytest.mark.skipif(not GUIDE.exists(), reason="the documentation is not in the source distribution")
def test_the_example_is_the_program_of_the_guide() -> None:
    program = (EXAMPLES / EXAMPLE).read_text("utf-8").partition('"""\n\n')[2]
    assert f"```python\n{program}```" in GUIDE.read_text("utf-8")


@pytest.mark.exhaustive
@pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not in the source distribution")
def test_the_example_runs(tmp_path: Path) -> None:
    check_example(EXAMPLE, "openai_chat", tmp_path)


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_that_cannot_be_logged_is_not_sent(wire: str, tmp_path: Path) -> None:
    import anthropic

    (tmp_path / "file").write_text("no folder")

    def use(url: str) -> None:
        with managed(make_client(wire, url), tmp_path / "file") as client:
            with pytest.raises((BadInput, anthropic.APIConnectionError)) as failed:
                find_methods(wire, client).create(**make_arguments(wire, HELLO))
            error = failed.value if wire != "anthropic" else failed.value.__cause__
            assert "is not a folder" in str(error)

    assert run_sync(Fake(wire, ["One."]), use).seen == []


def test_the_copy_is_a_client_of_the_same_kind(tmp_path: Path) -> None:
    import openai

    plain = openai.OpenAI(
        api_key=KEY, base_url="http://127.0.0.1:9/v1", organization="org-1", timeout=7, default_headers={"x-own": "1"}
    )
    copy = managed(plain, tmp_path)
    assert_type(copy, openai.OpenAI)
    assert type(copy) is openai.OpenAI
    assert (copy.api_key, copy.base_url, copy.organization) == (plain.api_key, plain.base_url, "org-1")
    assert (copy.timeout, copy.max_retries, copy.default_headers["x-own"]) == (7, plain.max_retries, "1")
    assert not plain.is_closed()
    copy.close()


def test_other_requests_pass_through(tmp_path: Path) -> None:
    """Counting tokens is no model call: the request is not logged."""
    import anthropic

    def use(url: str) -> None:
        with managed(make_client("anthropic", url), tmp_path) as client, pytest.raises(anthropic.APIStatusError):
            client.messages.batches.retrieve("batch_1")

    server = run_sync(Fake("anthropic"), use)
    assert server.seen[0].path == "/v1/messages/batches/batch_1"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_custom_http_client_is_used(library: str, tmp_path: Path) -> None:
    """With its headers and hooks. OpenAI's SDK takes one of either library."""
    statuses: list[int] = []

    def use(url: str) -> None:
        http_client = import_module(library).Client(
            headers={"x-own": "1"}, event_hooks={"response": [lambda response: statuses.append(response.status_code)]}
        )
        with managed(make_client("openai_chat", url, http_client=http_client), tmp_path) as client:
            assert list(client.chat.completions.create(model="gpt-4o", messages=HELLO, stream=True))
            client.chat.completions.create(model="gpt-4o", messages=[*HELLO, ONE, {"role": "user", "content": "Again"}])

    server = run_sync(Fake("openai_chat", ["One.", "Two."]), use)
    assert [seen.headers["x-own"] for seen in server.seen] == ["1", "1"]
    assert statuses == [200, 200]
    assert "Two." in [text_of(each) for each in logged_messages(read_events(tmp_path))]


@pytest.mark.parametrize(("thinking", "refusals"), [("adaptive", 1), ("enabled", 2)])
def test_thinking_that_is_refused_after_an_edit_is_left_out(thinking: str, refusals: int, tmp_path: Path) -> None:
    """The model's name says that its thinking is not bound to what is before it; the provider knows better."""
    answers = [step_answer(number, thinking=True) for number in range(12)]
    left, refused = refusals, list[int]()

    def script(body: Json) -> Step:
        nonlocal left
        if left and str(body).count("of a result that is long") < 60 * (12 - len(answers)):
            left -= 1
            refused.append(len(server.seen))
            return refusal("anthropic", 400, MISPLACED)
        return answers.pop(0)

    def use(url: str) -> None:
        messages: list[Any] = list(HELLO)
        more: Json = {"model": "claude-sonnet-4-6", "max_tokens": 2_000, "thinking": {"type": thinking}}
        more["thinking"] |= {"budget_tokens": 1_024} if thinking == "enabled" else {}
        with managed(make_client("anthropic", url), tmp_path, window=5_000) as client:
            for number in range(12):
                reply = client.messages.create(messages=messages, tools=CLAUDE_TOOLS, **more)
                text = f"line {number} of a result that is long\n" * 60
                take_results("anthropic", take_reply("anthropic", reply, messages), text, messages)

    server = Fake("anthropic", script)
    run_sync(server, use)
    assert len(server.refused) == refusals
    again = server.seen[refused[-1]].body
    assert count_thinking(server.seen[refused[0] - 1].body) > 0
    assert count_thinking(again) == 0
    assert ("thinking" in again) == (thinking == "adaptive")
    last = server.seen[-1].body
    assert count_thinking(last) > 0
    assert ("thinking" in last) == (thinking == "adaptive"), "a loop that does not begin with thinking goes on without"


def test_the_provider_may_drop_blocks_from_the_first_edited_request_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "ANTHROPIC_HOSTS", frozenset({"127.0.0.1"}))
    answers = [step_answer(number, thinking=True) for number in range(12)]

    def use(url: str) -> None:
        messages: list[Any] = list(HELLO)
        more: Json = {"model": "claude-opus-5-5", "max_tokens": 2_000, "thinking": {"type": "adaptive"}}
        more["extra_headers"] = {"anthropic-beta": "a-2026"}
        with managed(make_client("anthropic", url), tmp_path, window=5_000) as client:
            for number in range(12):
                reply = client.messages.create(messages=messages, tools=CLAUDE_TOOLS, **more)
                text = f"line {number} of a result that is long\n" * 60
                take_results("anthropic", take_reply("anthropic", reply, messages), text, messages)

    server = Fake("anthropic", lambda body: answers.pop(0), binding="prefix")
    run_sync(server, use)
    assert server.refused == []
    assert server.dropped == [], "it is a net, not the way"
    asking = ["block_binding" in seen.body["thinking"] for seen in server.seen]
    assert asking == sorted(asking)
    assert (asking[0], asking[-1]) == (False, True)
    betas = [seen.headers["anthropic-beta"] for seen in server.seen]
    assert [("thinking-binding-controls" in each) for each in betas] == asking
    assert all(each.startswith("a-2026") for each in betas)


@pytest.mark.parametrize("why", ["the view breaks a rule", "the fixed part fills the window"])
def test_a_request_that_is_sent_unmanaged_fits_and_has_no_thinking_of_our_view(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [step_answer(number, thinking=True) for number in range(16)]

    faults = [RequestFault("AN99", "a rule that the engine does not know", "messages.0")]

    def find_one(check: RequestCheck, text: bytes, model: str) -> list[RequestFault]:
        return [faults.pop()] if faults else []

    def use(url: str) -> None:
        messages: list[Any] = list(HELLO)
        more: Json = {"model": "claude-opus-5-5", "max_tokens": 2_000, "thinking": {"type": "adaptive"}}
        with managed(make_client("anthropic", url), tmp_path, window=5_000, session="s") as client:

            def work(steps: int, **options: Any) -> None:
                for number in range(steps):
                    reply = client.messages.create(messages=messages, tools=CLAUDE_TOOLS, **more, **options)
                    text = f"line {number} of a result that is long\n" * 60
                    take_results("anthropic", take_reply("anthropic", reply, messages), text, messages)

            work(12)
            assert count_thinking(server.seen[-1].body) > 0
            if why == "the view breaks a rule":
                with monkeypatch.context() as patch:
                    patch.setattr(RequestCheck, "find_faults", find_one)
                    work(1)
                    assert Scale().weight("anthropic", server.seen[-1].raw) < 5_000, "the guard made it fit"
            else:
                work(1, system="a system prompt that fills the window " * 1_000)
                assert len(server.seen[-1].body["messages"]) == len(messages) - 2
            assert count_thinking(server.seen[-1].body) == 0
            work(3)

    server = Fake("anthropic", lambda body: answers.pop(0), binding="prefix")
    with caplog.at_level("INFO", logger="tidegate"):
        run_sync(server, use)
    notes = {
        noted.topic: noted.text for each in read_events(tmp_path, "s") if isinstance(noted := each.payload, NoteAdded)
    }
    assert "what it was made from has been edited" in notes["thinking_left_out"]
    assert notes["thinking_left_out"] in caplog.text
    assert notes["sent_unmanaged"] in caplog.text
    assert server.refused == []
    assert any(count_thinking(seen.body) for seen in server.seen[-3:])


def test_other_clients_are_refused() -> None:
    with pytest.raises(BadInput, match="type dict"):
        managed({})


def check_types(sync: anthropic.Anthropic, asynchronous: openai.AsyncOpenAI) -> None:
    """Read by mypy: the result has the type of the client."""
    import anthropic
    import openai

    assert_type(managed(sync), anthropic.Anthropic)
    assert_type(managed(asynchronous), openai.AsyncOpenAI)


CLAUDE_ANSWER: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-8",
    "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "Yes."}],
    "usage": {"input_tokens": 9, "output_tokens": 2},
}


def send_to_cloud(kind: str, folder: Path, **options: Any) -> Any:
    """Send two requests with a client for a cloud, the second one shortened. Return what was sent last."""
    import anthropic
    import httpx2

    sent: list[Any] = []

    def answer(request: Any) -> Any:
        sent.append(request)
        return httpx2.Response(200, json=CLAUDE_ANSWER)

    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    plain = getattr(anthropic, kind)(http_client=http_client, max_retries=0, **options)
    with managed(plain, folder, session="s", window=4_000) as client:
        assert type(client) is type(plain)
        messages: list[Any] = [{"role": "user", "content": PAGE}]
        for _ in range(4):
            client.messages.create(model="claude-opus-4-8", max_tokens=100, messages=messages)
            messages += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": PAGE}]
        client.messages.create(model="claude-opus-4-8", max_tokens=100, messages=messages)
    assert len(sent[-1].content) < len(PAGE) * 4, "the view was sent, not the list"
    assert [text_of(each) for each in logged_messages(read_events(folder, "s"))].count("Yes.") == 5
    return sent[-1]


def test_claude_on_vertex_is_managed(tmp_path: Path) -> None:
    pytest.importorskip("google.auth")
    request = send_to_cloud("AnthropicVertex", tmp_path, region="us-east5", project_id="p", access_token="token")
    assert request.url.path.endswith("/publishers/anthropic/models/claude-opus-4-8:rawPredict")
    assert request.headers["authorization"] == "Bearer token"


def test_claude_on_bedrock_is_managed_and_signed_again(tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    auth = pytest.importorskip("botocore.auth")
    requests = pytest.importorskip("botocore.awsrequest")
    keys = {"aws_access_key": "AKIDEXAMPLE", "aws_secret_key": "secret", "aws_region": "us-east-1"}
    request = send_to_cloud("AnthropicBedrockMantle", tmp_path, **keys)
    fields = dict(part.strip().split("=", 1) for part in request.headers["authorization"].split(" ", 1)[1].split(","))
    names = fields["SignedHeaders"].split(";")
    again = requests.AWSRequest("POST", str(request.url), {name: request.headers[name] for name in names})
    again.data, again.context["timestamp"] = request.content, request.headers["x-amz-date"]
    from botocore.credentials import Credentials

    signer = auth.SigV4Auth(Credentials("AKIDEXAMPLE", "secret"), "bedrock-mantle", "us-east-1")
    del again.headers["host"]
    signature = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
    assert fields["Signature"] == signature


def test_the_client_for_the_binary_format_of_bedrock_is_refused(tmp_path: Path) -> None:
    import anthropic

    with pytest.raises(BadInput, match="binary format"):
        managed(anthropic.AnthropicBedrock(aws_region="us-east-1", aws_access_key="a", aws_secret_key="b"), tmp_path)
