"""Conversations of hundreds of short messages of the user, which sweeps keep."""

from itertools import pairwise

from tidegate import Session

TEXT = "The build failed in module parser with error 17; the log is in build/out.txt. " * 4


def test_a_chat_of_short_messages_is_seldom_compacted() -> None:
    session = Session(policy="default", window=16_000, wire="anthropic", count="chars/4", clock=lambda: 0.0)
    compacted = []
    for number in range(162):
        session.add({"role": "user", "content": f"request {number}: {TEXT}{TEXT}"})
        session.prepare()
        if any(decision.tokens_after < decision.tokens_before for decision in session.last_decisions if decision.acted):
            compacted.append(number)
        session.add({"role": "assistant", "content": f"answer {number}: {TEXT}"})
    calls_between = [later - earlier for earlier, later in pairwise(compacted)]
    assert min(calls_between) >= 2
