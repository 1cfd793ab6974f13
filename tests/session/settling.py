"""A conversation worth a summary, and a scribe from a script, for the tests of settling."""

import asyncio
from collections.abc import Callable, Iterable

from tidegate.core.events import NoteAdded
from tidegate.core.messages import Message, Text
from tidegate.core.outcome import SummaryRequest
from tidegate.core.policy.parser import parse_policy
from tidegate.core.stages import STAGES
from tidegate.core.tokens.counting import CharsPerToken
from tidegate.models.provider import Provider, Reply
from tidegate.models.scripted_provider import ScriptedProvider, ScriptStep
from tidegate.session.session import Session
from tidegate.session.summaries.drivers import AsyncSummarizer
from tidegate.session.summarizer import create_summarizer

COUNTER = CharsPerToken(4)
POLICY = """
moments:
  before_call:
    - {stage: summarize, when: {pressure: "> 0.8"}, keep_share: 0.4, max_tokens: 600}
  manual:
    - {stage: summarize, keep_turns: 1, max_tokens: 600}
"""
GOOD = (
    "## Session intent\n- The user wanted the rows of every client in the table, for ticket TCK-4411 on port 8443.\n"
    "## Key decisions\n- The agent read each file of src/app, entry by entry, and left retry_limit at 17.\n"
    "## Next steps\n- The agent had yet to read the file src/app/loader.py."
)


def words(number: int) -> str:
    """Talk in which every sentence differs from the others."""
    return " ".join(
        f"In step {number}.{place} the file src/app/part{number}_{place}.py was read and entry {number * 100 + place}"
        f" of the table held {number * place + 7} rows for client c{number}-{place}."
        for place in range(6)
    )


def talk(session: Session, start: int, stop: int) -> None:
    """Turns of about 250 tokens, each with a call and its result."""
    for number in range(start, stop):
        session.add({"role": "user", "content": f"ask-{number}: look at src/app/part{number}.py please"})
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
        session.add({"role": "assistant", "content": f"reading {number}", "tool_calls": [call]})
        session.add({"role": "tool", "tool_call_id": f"c{number}", "content": words(number)})
        session.add({"role": "assistant", "content": f"answer-{number}: it has {number * 3 + 1} functions"})


def opened(
    wire: str = "openai_chat", *, window: int = 4_000, model: str = "main", policy: str = POLICY, cache: bool = False
) -> Session:
    rules = parse_policy(policy, source="settling.yaml", stages=STAGES)
    return Session(
        model,
        policy=rules,
        wire=wire,
        window=window,
        system="You are careful.",
        count="chars/4",
        reserve=500,
        cache=cache,
    )


def request_of(
    count: int = 6, *, max_tokens: int = 300, max_chars: int = 0, previous: str = "", text: Callable[[int], str] = words
) -> SummaryRequest:
    messages = tuple(Message("user", (Text(text(number)),), id=f"m{number}") for number in range(1, count + 1))
    return SummaryRequest(messages, "Summarize the conversation below.", max_tokens, max_chars, previous)


def scribe(steps: Iterable[ScriptStep], wire: str = "openai_chat", model: str = "small") -> ScriptedProvider:
    return ScriptedProvider(wire, steps, model=model)


class Reasons(list[str]):
    """Told why an answer was not taken; shown every reply."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[Reply] = []

    def by(
        self,
        provider: Provider,
        *,
        window: int | None = 16_000,
        timeout: float = 600,
        retries: int = 0,
        conversation: Session | None = None,
    ) -> AsyncSummarizer:
        return create_summarizer(
            provider,
            window=window,
            counter=COUNTER,
            timeout=timeout,
            retries=retries,
            conversation=conversation,
            on_rejection=self.append,
            on_reply=self.replies.append,
        )


def wrote(summarize: AsyncSummarizer, request: SummaryRequest) -> str | None:
    """What it writes when it is asked for this."""

    async def main() -> str | None:
        return await summarize(request)

    return asyncio.run(main())


def noted(session: Session, topic: str) -> list[str]:
    events = (event.payload for event in session.log.read())
    return [what.text for what in events if isinstance(what, NoteAdded) and what.topic == topic]
