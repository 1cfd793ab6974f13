"""What is foretold is what happens, and foretelling changes nothing."""

import re

import pytest

from tests.session.figures import own_policy, said, step
from tidegate import Policy, Session, load
from tidegate.core.events import ViewEdited
from tidegate.core.messages import user_message
from tidegate.core.snapshot import freeze_view
from tidegate.session.reports.forecast import forecast_rules, list_thresholds

PRESETS = ("default", "jutul", "cowagent", "digitorn", "picoclaw", "ai", "own")


def of(name: str) -> Policy:
    return own_policy() if name == "own" else load(name)


def filled(name: str) -> Session:
    session = Session("gpt-4o", policy=of(name), window=8_000, reserve=1_000, count="chars/4")
    session.rules.add("Never push to main.")
    for number in range(24):
        session.add(user_message(f"ask {number}"), *step(number, "read", "shell", size=40), said("Done with main.py."))
    return session


@pytest.mark.parametrize("name", PRESETS)
def test_looking_changes_nothing(name: str) -> None:
    session = filled(name)
    before, head = freeze_view(session.view), session.log.head
    found = list(forecast_rules(session))
    assert {(each.moment, each.rule) for each in found} == {
        (moment, rule.name) for moment, rules in session.policy.moments.items() for rule in rules
    }
    list_thresholds(session)
    assert (freeze_view(session.view), session.log.head) == (before, head)


@pytest.mark.parametrize("name", PRESETS)
def test_a_manual_compaction_does_what_was_foretold(name: str) -> None:
    session = filled(name)
    told = [each for each in forecast_rules(session) if each.moment == "manual"]
    head = session.log.head
    session.compact()
    made = [event.payload for event in session.log.read(head + 1) if isinstance(event.payload, ViewEdited)]
    acting = [each for each in told if each.fires and not each.no_effect_reason]
    assert [each.rule for each in acting[:1]] == [each.rule for each in made[:1]]
    assert bool(made) == (name != "ai"), "all that is there is recent to it"
    for first, edited in zip(acting[:1], made, strict=False):
        assert first.freed_tokens == edited.tokens_before - edited.tokens_after > 0
        assert set(first.removed_ids) == {ident for edit in edited.edits for ident in getattr(edit, "ids", ())}


def test_a_rule_that_rests_says_what_it_waits_for_and_would_do() -> None:
    session = Session("gpt-4o", policy=own_policy(), window=20_000, count="chars/4")
    session.add(
        user_message("ask"), *step(1, "read", "read", "read", "read", size=500), said("ok"), user_message("next")
    )
    session.prepare()
    clear, summary = (each for each in forecast_rules(session) if each.moment == "before_call")
    assert not clear.fires
    assert re.match(
        r"The request \([\d,]+ of 15,904 usable tokens, 16.\d+%\) is not above the limit of 85%\.", clear.reason
    )
    assert (len(clear.shortened_ids), clear.removed_ids, clear.summarized_messages) == (2, (), 0)
    assert clear.freed_tokens == pytest.approx(2 * 625, rel=0.1)
    assert summary.no_effect_reason == "There is nothing to do."
    empty = list(forecast_rules(Session("gpt-4o", policy=own_policy(), window=20_000)))
    assert empty
    assert all(each.no_effect_reason and not each.freed_tokens for each in empty)


def test_what_is_saved_first_is_told() -> None:
    jutul, cow = filled("jutul"), filled("cowagent")
    manual = {each.rule: each for each in forecast_rules(jutul)}["manual/summarize"]
    assert manual.save_targets == ("the file conversation_history/main.md",)
    limit = {each.rule: each for each in forecast_rules(cow)}["turn_limit"]
    assert limit.fires
    assert limit.save_targets == ("long-term memory",)
    assert limit.summarized_messages > 0
