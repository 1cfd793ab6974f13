"""Let the embedded model chat unattended: sixty turns in a window of 2,048 tokens.

    python bench/chat_soak.py [--turns 60] [--window 2048] [--most 160] [--seed 1] [--summaries] [--preset NAME]

What the user says is short and long, in several scripts, with code, digits and some texts larger than the window. The
policy makes room on the way; `--summaries` has the model itself write the summaries. The status is 1 if a message was
not answered, a request was refused for its size, or a report says more than the window holds.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tidegate import Session
from tidegate.agent.loop import Agent, RequestRefused, RequestSent, TurnEnded
from tidegate.agent.system_prompt import SHORT_AGENT_RULES, PromptSources, assemble_prompt
from tidegate.agent.tools.tool import ToolContext
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.core.errors import TidegateError
from tidegate.core.events import NoteAdded
from tidegate.core.messages import text_of
from tidegate.models.embedded.provider import EmbeddedProvider
from tidegate.models.provider import Reply
from tidegate.session.summarizer import create_summarizer
from tidegate.wire.answers import parse_reply, read_usage

HEAD = "turn  asked  told  said  by model   cpu s  stop     stages"
NUMBERS = ", ".join(f"{number * 7919 % 100_000:05d}" for number in range(40))
SAYINGS = (
    "Hello, my name is Ada and I live in Turin.",
    "Tell me three things about the sea.",
    f"These are my readings: {NUMBERS}. What could they be?",
    "How is bread baked?",
    "Мой сосед держит пчёл, и мы часто говорим о погоде. " * 4 + "What do bees do in winter?",
    "Write a short story about a fox and a crow.",
    "def weigh(hive):\n    return hive.grams / 1000\n\n" * 10 + "What does this code do?",
    "昨天我在图书馆读了一本关于蜜蜂的书，非常有意思。" * 5 + "Write one sentence about honey.",
    "Why is the sky blue?",
    "Here is my whole diary. " + "Today it rained again, and I stayed in and read. " * 260 + "Was it dry?",
    "List five animals and what they eat.",
    "What was my name?",
    f"And now all of them: {NUMBERS * 16}. Are there many?",
    "الطقس جميل اليوم، فلنذهب في نزهة إلى الحديقة. " * 4 + "Which season is it?",
    "Thank you. What is a computer, told to a child?",
)


class Answered(NamedTuple):
    """One turn. `asked` is our measure of its last request, `told` the model's own; no `failure`: all is well."""

    asked: int
    told: int
    said: int
    stop: str
    stages: tuple[str, ...]
    refused: int
    failure: str


async def run_turn(agent: Agent, text: str) -> Answered:
    estimate = prompt_tokens = answer_tokens = refusals = 0
    stop, words, failure = "", "", ""
    stages: list[str] = []
    try:
        async for each in agent.run_turn(text):
            if isinstance(each, RequestSent):
                estimate = each.request.tokens
                stages += [decision.stage for decision in each.decisions if decision.acted]
            elif isinstance(each, Reply):
                usage = read_usage(each.usage)
                prompt_tokens, answer_tokens = usage.input_tokens, usage.output_tokens
                words = "".join(text_of(message) for message in parse_reply(agent.provider.wire, each)).strip()
            elif isinstance(each, RequestRefused):
                refusals += 1
            elif isinstance(each, TurnEnded):
                stop = each.reason
    except TidegateError as error:
        failure = f"{type(error).__name__}: {error}"
    window = agent.session.window or 0
    if not failure and (not words or stop not in ("end", "length")):
        failure = "not answered"
    elif refusals:
        failure = failure or "refused for its size"
    elif prompt_tokens + answer_tokens > window:
        failure = failure or f"{prompt_tokens + answer_tokens} tokens in a window of {window}"
    return Answered(estimate, prompt_tokens, answer_tokens, stop, tuple(stages), refusals, failure)


def an_agent(options: argparse.Namespace) -> Agent:
    model = EmbeddedProvider(window=options.window, max_output=options.most, seed=options.seed)
    system = assemble_prompt(PromptSources(rules=SHORT_AGENT_RULES), max_tokens=model.window // 8).text
    session = Session(
        model.model, wire=model.wire, window=model.window, count=model.counter, system=system, policy=options.preset
    )
    summarize = None
    if options.summaries:
        summarize = create_summarizer(
            model, window=model.window, counter=model.counter, timeout=300.0, conversation=session
        )
    return Agent(session, model, Toolbox(), ToolContext(Path("."), session), summarize=summarize)


async def soak(options: argparse.Namespace) -> int:
    agent = an_agent(options)
    failures = edits = 0
    print(HEAD)
    try:
        for number in range(1, options.turns + 1):
            start = time.process_time()
            turn = await run_turn(agent, SAYINGS[(number - 1) % len(SAYINGS)])
            seconds = time.process_time() - start
            ratio = turn.told / turn.asked if turn.asked else 0.0
            failures += bool(turn.failure)
            edits += len(turn.stages)
            line = f"{number:4} {turn.asked:6} {turn.told:5} {turn.said:5} {ratio:9.3f} {seconds:7.1f}  {turn.stop:8}"
            print(*(line, *turn.stages, turn.failure and f"!! {turn.failure}"), flush=True)
    finally:
        await agent.provider.close()
    rejected = [
        event
        for event in agent.session.log.read()
        if isinstance(event.payload, NoteAdded) and event.payload.topic == "summary_rejected"
    ]
    print(
        f"{options.turns} turns in a window of {agent.session.window}: {options.turns - failures} answered,"
        f" {failures} failed, {edits} times made room"
        + (f", {len(rejected)} summaries of the model not taken" if options.summaries else "")
    )
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="The embedded model chats unattended in a small window.")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--window", type=int, default=2048)
    parser.add_argument("--most", type=int, default=160, help="tokens of an answer, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--summaries", action="store_true", help="let the model write the summaries")
    try:
        return asyncio.run(soak(parser.parse_args()))
    except TidegateError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
