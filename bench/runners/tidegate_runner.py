"""tidegate: `Session.add` and `Session.fit` with a tail-keeping policy; `Session.prepare` where bytes are asked for.

The same work as the peers': a token for every four characters, usage reported after every call, a window of the same
size, and when it is full the oldest fifth leaves (no model). In mode `bytes` the request is rendered and validated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench_conversation import WINDOW, Chat
from prepare_runner import run_prepare_runner

from tidegate import Session
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES

POLICY = """
name: tail
reserve: 0
moments:
  before_call:
    - stage: keep_recent
      when: {pressure: "> 1"}
      share: 0.8
"""


class Ours:
    async def load(self, history: Iterable[Chat]) -> None:
        policy = parse_policy(POLICY, source="bench", stages=STAGES)
        self.session = Session("none", policy=policy, window=WINDOW, count="chars/4")
        self.body = b""
        fresh = 0
        for message in history:
            self.session.add(message)
            fresh += 1
            if fresh >= 50 and message["role"] != "assistant":
                self.session.fit()
                fresh = 0
        self.session.fit()

    async def prepare(self, new: Sequence[Chat]) -> None:
        self.session.add(*new)
        self.session.fit()

    async def render(self) -> bytes:
        return self.session.render_request().to_bytes()

    def used(self) -> int:
        return self.session.view.tokens

    async def record(self, tokens: int) -> None:
        self.session.record({"prompt_tokens": tokens})

    def visible(self) -> int:
        return len(self.session.view.items)


if __name__ == "__main__":
    run_prepare_runner("tidegate", "tidegate", Ours)
