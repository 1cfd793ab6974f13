"""Nothing is ignored silently: what a session cannot use is a warning or an error that says what was done with it."""

import re
import warnings

import pytest

from tidegate import Session
from tidegate.core.errors import BadInput, IgnoredResultWarning, SystemMessageWarning

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}


def result(call: str, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call, "content": text}


def opened(window: int | str = 16_000) -> Session:
    session = Session("gpt-4o", window=window)
    session.add({"role": "user", "content": "Look."})
    return session


@pytest.mark.parametrize(
    ("messages", "warning"),
    [
        ([result("x9", "lost")], r"m2 is a result for the call 'x9', which no earlier message in the view has made\."),
        (
            [CALL, result("c2", "early")],
            r"m3 is a result for the call 'c2', which no earlier message in the view has made\.",
        ),
        (
            [CALL, result("c1", "first"), result("c1", "second")],
            r"m4 is a second result for the call 'c1', which m3 has answered\.",
        ),
    ],
    ids=["without a call", "of another call", "a second one"],
)
def test_a_result_that_cannot_be_sent_is_a_warning(messages: list[dict[str, object]], warning: str) -> None:
    session = opened()
    session.add(*messages)
    with pytest.warns(IgnoredResultWarning, match=f"{warning} It is left out of requests and stays in the log") as told:
        request = session.prepare()
    assert told[0].filename == __file__, "it names the line of the caller"
    left_out = re.match(r"m\d", str(told[0].message))
    assert left_out
    assert str(messages[-1]["content"]) not in str(request.messages)
    assert session.recall(left_out[0]).role == "tool"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.prepare()


def test_a_system_prompt_that_is_added_as_a_message_is_a_warning() -> None:
    session = Session("gpt-4o", window=16_000)
    prompt = {"role": "system", "content": "Be brief."}
    with pytest.warns(SystemMessageWarning, match=r"Give the system prompt as `Session\(system=") as warned:
        session.add(prompt, {"role": "user", "content": "Look."})
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.add(prompt)
        Session("gpt-4o", window=16_000, system="Be kind.").add(prompt)


@pytest.mark.parametrize("usage", [{"foo": 1}, {"tokens": 12, "cost": 3}])
def test_what_is_no_usage_report_is_an_error_that_names_the_fields(usage: dict[str, object]) -> None:
    session = opened()
    session.prepare()
    head = session.log.head
    with pytest.raises(TypeError, match=r"prompt_tokens, completion_tokens, input_tokens.*This has '(foo|tokens)'"):
        session.record(usage)
    assert session.log.head == head
    session.record(None)
    session.record({})
    session.record({"output_tokens": 3})


@pytest.mark.parametrize(
    ("given", "tokens"), [("16k", 16_000), ("16K", 16_000), ("16,000", 16_000), ("1M", 1_000_000), ("0.5M", 500_000)]
)
def test_a_window_may_be_written_as_people_write_it(given: str, tokens: int) -> None:
    assert opened(given).window == tokens


@pytest.mark.parametrize("given", ["", "k", "16kk", "-1", 0, -5, "1.0001k", "1e3"])
def test_a_window_that_is_none_is_an_error(given: int | str) -> None:
    with pytest.raises(BadInput, match=r'such as 16000 or "16k"'):
        opened(given)


def test_a_message_that_cannot_fit_fills_the_room_and_leaves_half_of_it_to_the_work_on_it() -> None:
    session = Session("gpt-4o", window=4_000)
    session.add({"role": "user", "content": " ".join(f"w{number}" for number in range(30_000))})
    request = session.prepare()
    room = session.budget.room
    assert 0.95 * room < session.view.tokens <= room
    (cut,) = [each for each in request.decisions if each.acted]
    assert f"the newest request is cut from {cut.tokens_before:,} to {cut.tokens_after:,} tokens" in str(cut.reason)
    assert "facts" not in str(cut.reason), "nothing was searched for facts: the message stays"
    session.add(CALL, result("c1", "It is the linker. " * 150))
    request = session.prepare()
    notices = re.findall(r"\[\.\.\. ([\d,]+) characters left out; recall m1 \.\.\.\]", str(request.messages))
    assert len(notices) == 1
    shown = str(request.messages[0]["content"])
    whole = len(" ".join(f"w{number}" for number in range(30_000)))
    notice = len(f"\n[... {notices[0]} characters left out; recall m1 ...]\n")
    assert int(notices[0].replace(",", "")) == whole - len(shown) + notice, "one number for both cuts"
    assert "It is the linker. " * 150 in str(request.messages), "the work on it is there"


def test_a_result_over_its_share_is_reported_with_the_numbers() -> None:
    session = opened(4_000)
    session.add(CALL, result("c1", "It is the linker. " * 400))
    (cut,) = [each for each in session.prepare().decisions if each.acted]
    limit = int(session.budget.room * 0.25)
    assert f"over the limit of {limit:,} tokens (25% of the room of {session.budget.room:,})" in str(cut.reason)
