"""A preset acts before the guard: what leaves the view leaves by the preset's own rules."""

import pytest

from tests.scale import parametrize_pairs
from tests.seeds.talk import asks, calls, opened, passage, replies, result, stages
from tidegate import Session, SummaryRequest, load
from tidegate.presets import preset_names

TEXTS = {"English": passage("out", 2_000), "Chinese": "阀门在四巴时打开，水泵在九秒后启动，除非传感器另有指示。" * 25}


def summarize(request: SummaryRequest) -> str:
    return "- user said: the plant is to be restarted"


@pytest.mark.parametrize("loops", [0, 8], ids=["chat", "tool loops"])
@parametrize_pairs(("preset", "text"), preset_names(), TEXTS)
def test_the_guard_has_nothing_to_do(preset: str, text: str, loops: int) -> None:
    """No single message is large for the window, so the preset can always make room itself."""
    session: Session = opened(load(preset), window=24_000)
    for turn in range(20):
        session.add(asks(f"ask-{turn}"))
        for step in range(loops):
            session.prepare(summarize)
            session.add(calls(f"c{turn}.{step}"), result(f"c{turn}.{step}", TEXTS[text]))
        session.prepare(summarize)
        session.add(replies(f"reply-{turn}", 3_000))
    acted = stages(session)
    assert "guard" not in acted
    assert acted or not loops


def test_what_a_rule_shrinks_leaves_room_for_the_rules_of_the_user() -> None:
    """These are kept word for word beside what the stage sees, in the same room."""
    session: Session = opened(load("cowagent"), window=8_192)
    typed = "".join(f"Never touch the file src/plant/unit_{number}/valve_{number}.py.\n" for number in range(12))
    session.add(asks("earlier"), replies("earlier reply"), {"role": "user", "content": typed})
    for step in range(40):
        session.prepare(summarize)
        session.add(calls(f"c{step}"), result(f"c{step}", passage(f"r{step}", 1_200)))
    acted = stages(session)
    assert "guard" not in acted
    assert "shrink_to" in acted
