"""Replay: the figures are those of the requests that would be sent, whatever the recording is like."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.scale import mark_all_but, scaled
from tidegate.core.errors import BadInput
from tidegate.core.messages import Message, Text
from tidegate.core.outcome import Outcome
from tidegate.core.policy.policy import Policy, Rule
from tidegate.core.tokens.counting import MESSAGE_OVERHEAD, REQUEST_OVERHEAD, CharsPerToken
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.replay_report import ReplayReport, sum_reports
from tidegate.lab.replay.session_replay import (
    SECONDS_PER_CALL,
    ReplaySetup,
    classify_newest_message,
    replay_session,
)
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.request_size import RequestSizer
from tidegate.models.token_counters import create_counter
from tidegate.presets import load, preset_names
from tidegate.proof.session_generator import generate_session

WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini")
ONE = WIRES[:1]
"""Where what other dialects make of the same view is beside the point."""
Json = dict[str, Any]


def lines(messages: Sequence[Json]) -> list[RecordedLine]:
    return [RecordedLine(number, message) for number, message in enumerate(messages, 1)]


def run(messages: Sequence[Json], **changes: Any) -> tuple[ReplayReport, list[ContenderRequest]]:
    asked: list[ContenderRequest] = []
    settings: Json = {
        "policy": load("default"),
        "window": 8000,
        "count": "chars/4",
        "dialects": WIRES,
        "fresh_interval": 5,
        **changes,
    }
    report = replay_session(
        "it", lines(messages), ReplaySetup(**settings), on_request=lambda each: asked.append(_copied(each))
    )
    return report, asked


def _copied(each: ContenderRequest) -> ContenderRequest:
    return each._replace(messages=json.loads(json.dumps(list(each.messages))))


def characters(message: Json) -> int:
    """As other tools count: content, call names, call arguments."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content or ()]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return sum(map(len, texts)) + sum(len(call["name"]) + len(call["arguments"]) for call in calls)


@pytest.mark.parametrize("preset", mark_all_but(preset_names(), "default", "jutul"))
@pytest.mark.parametrize(
    ("count", "turns", "window"),
    [("chars/4", 4, 4500), pytest.param("exact", scaled(8), 8000, marks=pytest.mark.exhaustive)],
)
def test_a_long_session_under_every_preset(preset: str, count: str, turns: int, window: int) -> None:
    report, asked = run(list(generate_session(turns, seed=2)), policy=load(preset), count=count, window=window)
    assert report.calls == report.requests == len(asked) > 5 * turns
    assert report.oversized_requests == 0
    assert report.max_tokens <= window
    assert not report.invalid_by_dialect
    assert not report.exceptions
    assert report.newest_lost == 0
    assert report.newest_whole == report.calls
    assert report.refused == 0
    assert report.edits.total() > 0


def test_figures_by_characters_are_those_of_the_requests() -> None:
    """Counted again by hand from the requests handed out."""
    report, asked = run(list(generate_session(4, seed=4)), dialects=ONE)
    sizes = [sum(map(characters, each.messages)) / 4 for each in asked]
    assert report.mean_tokens == pytest.approx(sum(sizes) / len(sizes))
    assert report.max_tokens == max(sizes)
    shares = []
    for before, now in pairwise(asked):
        same = 0
        while same < min(len(before.messages), len(now.messages)) and before.messages[same] == now.messages[same]:
            same += 1
        shares.append(sum(map(characters, now.messages[:same])) / sum(map(characters, now.messages)))
    assert report.mean_shared_share == pytest.approx(sum(shares) / len(shares))
    assert 0 < sum(shares) / len(shares) < 1


def test_figures_by_tokens_are_those_of_the_requests() -> None:
    report, asked = run(
        [{"role": "user", "content": "hello there"}, {"role": "assistant", "content": "hi"}], count="exact"
    )
    count = create_counter("", "exact").count_text
    assert [message["content"] for message in asked[0].messages] == ["hello there"]
    assert report.max_tokens == REQUEST_OVERHEAD + MESSAGE_OVERHEAD + count("hello there")


def test_over_the_window_is_seen() -> None:
    """The scale itself, apart from the engine that keeps requests under it."""
    scale = RequestSizer(CharsPerToken(4), window=10)
    assert not scale.measure([{"role": "user", "content": "x" * 40}]).is_oversized
    longer = scale.measure([{"role": "user", "content": "x" * 40}, {"role": "user", "content": "y"}])
    assert longer.is_oversized
    assert (longer.tokens, longer.shared_tokens) == (10.25, 10)
    moved = scale.measure([{"role": "user", "content": "z"}, {"role": "user", "content": "x" * 40}])
    assert moved.shared_tokens == 0


def test_each_request_asks_for_its_assistant_message() -> None:
    said = list(generate_session(3, seed=1))
    _, asked = run(said, window=1_000_000)
    places = [place for place, message in enumerate(said) if message["role"] == "assistant"]
    assert [each.message_index for each in asked] == places
    for each in asked:
        newest = said[each.message_index - 1]
        assert each.messages[-1]["content"] == newest["content"]
        assert each.messages[0] == {"role": "system", "content": said[0]["content"]}


def test_replay_is_deterministic() -> None:
    said = list(generate_session(4, seed=6))
    (report, asked), (again, asked_again) = (run(said, window=4500, dialects=WIRES[1:3]) for _ in range(2))
    assert report.edits.total() > 0
    assert report == again
    assert [(each.message_index, each.messages, each.error) for each in asked] == [
        (each.message_index, each.messages, each.error) for each in asked_again
    ]


def test_leading_system_messages_are_the_fixed_part_and_later_ones_are_not() -> None:
    said: list[Json] = [
        {"role": "system", "content": "one"},
        {"role": "developer", "content": [{"type": "text", "text": "two"}]},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "system", "content": "three"},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "yes"},
    ]
    report, asked = run(said)
    assert not report.exceptions
    first, last = asked[0].messages, asked[-1].messages
    assert first[0] == {"role": "system", "content": "one\n\ntwo"}
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user"]
    assert "three" in str(last[-1]["content"])


ODD: dict[str, list[Json]] = {
    "assistant first": [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "x"}],
    "no user": [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
    "asked twice": [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
    ],
    "empty texts": [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
    ],
    "result without call": [
        {"role": "user", "content": "a"},
        {"role": "tool", "tool_call_id": "nobody", "content": "b"},
        {"role": "assistant", "content": "c"},
    ],
    "call without result": [
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{"}}],
        },
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
    ],
    "lone surrogate": [{"role": "user", "content": "a\ud800b"}, {"role": "assistant", "content": "\udfff"}],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_recordings_have_a_defined_outcome(name: str) -> None:
    report, asked = run(ODD[name])
    assert report.calls == len(asked) == sum(message["role"] == "assistant" for message in ODD[name])
    assert not report.exceptions
    assert not report.invalid_by_dialect
    assert report.newest_lost == 0
    assert not any(each.error for each in asked)


def test_a_fixed_part_larger_than_the_window_is_refused_with_the_numbers() -> None:
    said: list[Json] = [{"role": "system", "content": "word " * 9000}, *list(generate_session(2, seed=0))[1:]]
    report, asked = run(said, count="exact")
    assert report.refused == report.calls == len(asked)
    assert report.requests == 0
    assert "8,000" in report.refusal
    assert all(each.error == report.refusal for each in asked)
    assert report.mean_shared_share is None
    assert report.mean_tokens == 0
    assert not report.exceptions


def test_a_user_message_larger_than_the_room_is_clipped_and_said_so() -> None:
    huge = " ".join(str(number) for number in range(20_000))
    report, asked = run([{"role": "user", "content": huge}, {"role": "assistant", "content": "ok"}])
    assert (report.newest_whole, report.newest_clipped, report.newest_lost) == (0, 1, 0)
    assert report.oversized_requests == 0
    assert str(asked[0].messages[-1]["content"]).startswith(huge[:40])


def test_how_the_newest_words_were_kept() -> None:
    newest = Message("user", (Text("first words " * 20), Text("last words")))
    parts = [{"type": "text", "text": part.text} for part in newest.parts if isinstance(part, Text)]
    whole = {"role": "user", "content": "before\n\n" + "first words " * 20 + "\n\nlast words"}
    assert classify_newest_message(newest, [whole]) == "whole"
    assert (
        classify_newest_message(newest, [{"role": "user", "content": parts}, {"role": "user", "content": "later"}])
        == "whole"
    )
    assert classify_newest_message(newest, [{"role": "user", "content": "first words " * 5 + "[cut]"}]) == "begun"
    assert classify_newest_message(newest, [{"role": "user", "content": parts[:1]}]) == "begun"
    assert classify_newest_message(newest, [{**whole, "role": "assistant"}]) == "gone", (
        "somebody else's words are not the user's"
    )
    assert classify_newest_message(newest, []) == "gone"


def test_what_raises_is_counted_and_the_rest_goes_on() -> None:
    def broken(*_: object) -> Outcome:
        raise RuntimeError("out of order")

    policy = Policy("broken", {"before_call": (Rule("r", "broken", broken, {}),)})
    said = list(generate_session(2, seed=1))
    report, asked = run(said, policy=policy)
    assert report.exceptions == {"RuntimeError: out of order": report.calls}
    assert report.requests == 0
    assert [each.error for each in asked] == ["out of order"] * report.calls


def test_thirty_seconds_pass_with_every_assistant_message() -> None:
    """A rule that rests less than a call takes is never held back; one that rests for ten calls is."""
    said = list(generate_session(7, seed=2))

    def edits(seconds: int) -> int:
        rested = load("digitorn", {"cooldown_turns": 0, "cooldown_seconds": seconds})
        return run(said, policy=rested, window=8_000, dialects=ONE)[0].edits["summarize"]

    assert SECONDS_PER_CALL == 30
    assert edits(0) == edits(29) > edits(300)


def test_a_message_no_dialect_knows_names_its_line() -> None:
    with pytest.raises(BadInput, match="line 2"):
        run([{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "hologram"}]}])


def test_stopping() -> None:
    asked: list[ContenderRequest] = []
    with pytest.raises(KeyboardInterrupt):
        replay_session(
            "it",
            lines(list(generate_session(3, seed=1))),
            ReplaySetup(load("default"), 8000),
            on_request=asked.append,
            should_stop=lambda: len(asked) == 4,
        )
    assert len(asked) == 4


def test_totals_add_up() -> None:
    reports = [run(list(generate_session(turns, seed=turns)), dialects=ONE)[0] for turns in (2, 5)]
    whole = sum_reports(reports)
    assert whole.sessions == 2
    assert whole.calls == sum(report.calls for report in reports)
    assert whole.max_tokens == max(report.max_tokens for report in reports)
    assert whole.edits == reports[0].edits + reports[1].edits
    assert whole.mean_tokens == pytest.approx(sum(r.tokens for r in reports) / sum(r.requests for r in reports))
