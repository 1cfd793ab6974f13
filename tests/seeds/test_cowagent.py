"""The promises of the preset `cowagent`: turns, settings, limits."""

import json
from pathlib import Path

import pytest

from tests.seeds.mutate import cut_by_index
from tests.seeds.talk import (
    Json,
    Preset,
    asks,
    calls,
    names,
    numbers,
    opened,
    paired,
    passage,
    replies,
    result,
    results,
    rules,
    stages,
    turn,
    turns,
)


@pytest.mark.seed("COW-01", change={"max_context_turns": 1})
def test_a_turn_stays_whole_until_a_trim(preset: Preset) -> None:
    """Request, thinking, calls, results and reply, in the order they came and word for word."""
    session = opened(preset("cowagent"), wire="deepseek")
    said_so_far: list[Json] = []
    for number in range(1, 4):
        thought = {"reasoning_content": passage(f"thought-{number}")}
        whole = [
            asks(f"ask-{number}"),
            {**calls(f"call-{number}.1", f"call-{number}.2", says=passage(f"says-{number}")), **thought},
            result(f"call-{number}.1", passage(f"call-{number}.1", 400)),
            result(f"call-{number}.2", passage(f"call-{number}.2", 400)),
            {**replies(f"reply-{number}"), **thought},
        ]
        session.add(whole[0])
        session.prepare()
        session.add(*whole[1:])
        said_so_far += whole
    session.add(asks("ask-4"))
    request = session.prepare()
    assert request.messages[1:] == [*said_so_far, asks("ask-4")]
    assert stages(session) == []


@pytest.mark.seed("COW-01", change={"max_context_turns": 1})
def test_signed_thinking_stays_until_a_trim(preset: Preset) -> None:
    session = opened(preset("cowagent"), wire="anthropic")
    thinking = {"type": "thinking", "thinking": passage("thought-1"), "signature": "c2lnbmVk"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a"}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": passage("call-1")}
    session.add({"role": "user", "content": passage("ask-1")})
    session.add({"role": "assistant", "content": [thinking, use]}, {"role": "user", "content": [answer]})
    session.add({"role": "assistant", "content": [{"type": "text", "text": passage("reply-1")}]})
    session.add(*turn(2), asks("ask-3"))
    request = session.prepare()
    assert names(request) == ["ask-1", "thought-1", "call-1", "reply-1", "ask-2", "reply-2", "ask-3"]
    assert request.messages[1]["content"][:2] == [thinking, use]


@pytest.mark.seed("COW-02", change={"max_steps": 16})
@pytest.mark.seed("COW-02", change={"max_context_turns": 19})
@pytest.mark.seed("COW-02", change={"max_context_tokens": 50_001})
def test_the_settings_are_those_of_the_document(preset: Preset) -> None:
    settings = preset("cowagent").settings
    assert settings["max_context_tokens"] == 50_000
    assert settings["max_context_turns"] == 20
    assert settings["max_steps"] == 15


@pytest.mark.seed("COW-02", change={"max_context_turns": 20})
def test_a_config_file_with_the_documents_own_names(preset: Preset, tmp_path: Path) -> None:
    """A whole config.json, most of which is none of our business."""
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps(
            {
                "channel_type": "web",
                "model": "some-model",
                "agent_max_context_tokens": 80_000,
                "agent_max_context_turns": 4,
                "agent_max_steps": 7,
            }
        )
    )
    policy = preset("cowagent", json.loads(path.read_text()), ignore_unknown=True)
    assert policy.settings["max_context_tokens"] == 80_000
    assert policy.settings["max_steps"] == 7
    session = opened(policy)
    session.add(*turns(1, 4), asks("ask-5"))
    assert numbers(session.prepare(), "ask-") == [3, 4, 5], "the limit of four turns holds"


@pytest.mark.seed("COW-02", swap={"drop_turns": cut_by_index})
def test_a_parallel_batch_is_never_split(preset: Preset) -> None:
    """Batches of three go through every rule of the preset; whatever is left of them is left whole."""
    policy = preset("cowagent", max_context_turns=9, max_context_tokens=12_000, emergency_turns=2)
    session = opened(policy, system="")
    seen: set[str] = set()
    for number in range(1, 16):
        session.add(asks(f"ask-{number}"))
        batches = paired(session.prepare())
        assert all(len(batch) == 3 for batch in batches)
        session.add(*turn(number, (24_000, 300, 300), (300, 300, 300))[1:])
        seen |= set(stages(session))
    session.add(asks("ask-16"))
    session.prepare()
    assert all(len(batch) == 3 for batch in paired(session.overflowed()))
    assert numbers(session.render_request(), "ask-") == [15, 16]
    assert paired(session.overflowed()) == []
    assert {"cap_results", "drop_turns", "clear_context"} <= set(stages(session))
    few = opened(policy, system="")
    few.add(*turns(1, 3, (300, 300, 300), (19_000, 19_000, 19_000)), asks("ask-4"))
    assert paired(few.prepare()) == []
    assert stages(few) == ["text_only_turns"]


@pytest.mark.seed("COW-04", change={"max_result_chars": 10**9})
def test_long_results_of_earlier_turns_are_cut(preset: Preset) -> None:
    session = opened(preset("cowagent"))
    session.add(*turn(1, (20_001,), (20_000,), (500, 64_000)))
    session.add(asks("ask-2"))
    session.prepare()
    session.add(calls("now"), result("now", passage("now", 30_000)))
    found = results(session.prepare())
    assert found["now"] == passage("now", 30_000), "the current turn is not touched"
    assert found["call-1.2.1"] == passage("call-1.2.1", 20_000), "20,000 is not over 20,000"
    assert found["call-1.3.1"] == passage("call-1.3.1", 500)
    for name, size in (("call-1.1.1", 20_001), ("call-1.3.2", 64_000)):
        whole, cut = passage(name, size), found[name]
        assert len(cut) <= 20_000
        head, notice, tail = cut.partition("\n[... ")[0], cut.partition("\n[... ")[2], cut.rpartition(" ...]\n")[2]
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert min(len(head), len(tail)) > 9_000
        assert f"{size:,} characters" in notice
    assert stages(session) == ["cap_results"]


@pytest.mark.seed("COW-04", change={"max_result_chars": 10**9})
def test_the_cut_comes_with_the_next_decision_loop(preset: Preset) -> None:
    """While a turn runs its own long results stay, call after call; when the next one begins they are history."""
    session = opened(preset("cowagent"))
    session.add(asks("ask-1"), calls("a"), result("a", passage("a", 30_000)))
    session.prepare()
    session.add(calls("b"), result("b", passage("b", 30_000)))
    assert results(session.prepare()) == {"a": passage("a", 30_000), "b": passage("b", 30_000)}
    session.add(replies("reply-1"), asks("ask-2"))
    assert [len(text) <= 20_000 for text in results(session.prepare()).values()] == [True, True]


@pytest.mark.seed("COW-04", change={"max_result_chars": 10**9})
def test_a_history_that_comes_in_one_piece_is_cut_too(preset: Preset) -> None:
    """Its newest turn is already running; what lies before is history all the same."""
    session = opened(preset("cowagent"))
    session.add(*turn(1, (30_000,)), asks("ask-2"), calls("now"), result("now", passage("now", 30_000)))
    found = results(session.prepare())
    assert len(found["call-1.1.1"]) <= 20_000
    assert found["now"] == passage("now", 30_000)


@pytest.mark.seed("COW-05", change={"max_context_turns": 30})
@pytest.mark.seed("COW-05", without=("turn_limit",))
def test_over_the_turn_limit_the_older_half_goes(preset: Preset) -> None:
    session = opened(preset("cowagent"))
    session.add(*turns(1, 19, (200, 200), (200,)), asks("ask-20"))
    assert numbers(session.prepare(), "ask-") == list(range(1, 21)), "20 turns are not over 20"
    session.add(*turn(20, (200, 200), (200,))[1:], asks("ask-21"))
    request = session.prepare()
    assert numbers(request, "ask-") == list(range(11, 22))
    assert numbers(request, "reply-") == list(range(11, 21))
    chains = [batch for number in range(11, 21) for batch in _batches(number)]
    assert paired(request) == chains, "the chains of what stays are whole, and nothing is left of the others"
    assert rules(session) == ["turn_limit"]


@pytest.mark.seed("COW-05", change={"max_context_turns": 30})
def test_half_of_an_odd_number_is_rounded_down(preset: Preset) -> None:
    session = opened(preset("cowagent", max_context_turns=5))
    session.add(*turns(1, 5), asks("ask-6"))
    assert numbers(session.prepare(), "ask-") == [3, 4, 5, 6]


@pytest.mark.seed("COW-15", without=("token_limit",))
def test_the_budget_is_in_tokens_of_the_provider(preset: Preset) -> None:
    """It counts half as much again as we do. One rule is enough, because it knows that."""
    session = opened(preset("cowagent", max_context_tokens=7_000))
    session.add(*turns(1, 8, reply=3_000), asks("ask-9"))
    session.record({"prompt_tokens": session.prepare().tokens * 3 // 2})
    session.add(replies("reply-9", 3_000), *turns(10, 16, reply=3_000), asks("ask-17"))
    assert session.prepare().tokens <= 7_000
    assert rules(session) == ["token_limit"]


def _batches(number: int) -> list[tuple[str, ...]]:
    return [(f"call-{number}.1.1", f"call-{number}.1.2"), (f"call-{number}.2.1",)]
