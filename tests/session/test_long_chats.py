"""Conversations of hundreds of short messages of the user, which sweeps keep."""

from tidegate import Session

TEXT = "The build failed in module parser with error 17; the log is in build/out.txt. " * 4


def test_a_chat_of_short_messages_does_not_sweep_at_every_call() -> None:
    session = Session(policy="default", window=16_000, wire="anthropic", count="chars/4", clock=lambda: 0.0)
    streak = longest = 0
    for number in range(172):
        session.add({"role": "user", "content": f"request {number}: {TEXT}{TEXT}"})
        session.prepare()
        is_compacted = any(each.acted and each.tokens_after < each.tokens_before for each in session.last_decisions)
        streak = streak + 1 if is_compacted else 0
        longest = max(longest, streak)
        session.add({"role": "assistant", "content": f"answer {number}: {TEXT}"})
    assert 0 < longest <= 6
