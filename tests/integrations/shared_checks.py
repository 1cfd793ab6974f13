"""What must hold with every framework: a killed run goes on, the framework's own model writes summaries, no user gets
the text of another, and a request that is refused for its length is sent again."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fake.server import Fake, Step
from tests.fake.words import refusal
from tests.integrations.provider import FINAL_ANSWER, KEY, LongTask, run_provider
from tests.session.noted import write_answer
from tidegate.core.events import BranchStarted, Event, MessageAdded
from tidegate.core.messages import Call, Result
from tidegate.datafolder.data_folder import DataFolder
from tidegate.wire.splicing.message_form import join_result_text
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer

WINDOW = 16_000
GO_ON = "Go on with the pages."
SUMMARY = "Pages of the harbor log were read; each page has a code, page 0 has K0000, page 1 has K0001."
_PAGES = 40
_LAST_BEFORE = 24

PROGRAM_HEAD = f"""
import asyncio, os, signal, sys
from pathlib import Path
from tests.integrations.provider import read_page
url, folder, is_killed = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "stop"
question = "Read all pages." if is_killed else "{GO_ON}"
def read_or_die(number):
    if is_killed and number == {_LAST_BEFORE}:
        os.kill(os.getpid(), signal.SIGKILL)
    return read_page(number)
"""


class ResumedTask(LongTask):
    """Asks for the pages that are missing after `GO_ON`, and for all of them in a run that begins again.

    If a framework was killed before it saved the last answer, it asks for the pages of that answer again.
    """

    def __init__(self) -> None:
        super().__init__(_PAGES, parallel=2)
        self._has_resumed = False
        self._last_asked: list[int] = []

    def __call__(self, body: dict[str, Any]) -> Step:
        text = str(body)
        if GO_ON in text and not self._has_resumed:
            self._has_resumed = True
            self.left = list(range(_LAST_BEFORE, _PAGES))
            self.prefix = "again"
        elif "call_" not in text and "again_" not in text:
            self.left = list(range(_PAGES))
        elif not any(f"{self.prefix}_{number}" in text for number in self._last_asked):
            self.left, self.prefix = [*self._last_asked, *self.left], "again"
        self._last_asked = self.left[:2]
        return super().__call__(body)


def check_killed_run(
    program: str,
    wire: str,
    folder: Path,
    *,
    begins_again: bool = False,
    unlogged: int = 0,
    session: str = "k",
    task: Callable[[dict[str, Any]], Step] | None = None,
) -> None:
    """The program is killed while a tool runs. Started again, it gives the final answer, and everything is in the log.

    `begins_again`: the framework saves nothing while a run is under way, so it begins again with the first message.
    `unlogged`: how many pages at the end of a run may be missing in the log. `session` is its name.
    """
    with run_provider(wire, task or ResumedTask(), WINDOW) as fake:
        url = fake.host if wire == "gemini" else fake.url
        command = [sys.executable, "-c", PROGRAM_HEAD + program, url, str(folder)]
        killed = run_program([*command, "stop"])
        assert killed.returncode == -9, killed.stderr[-2000:]
        assert len(read_pages(folder, session)) >= _LAST_BEFORE - 2 - unlogged, (
            "what was sent before the kill is in the log"
        )
        done = run_program([*command, "go"])
        assert done.returncode == 0, done.stderr[-2000:]
        assert FINAL_ANSWER in done.stdout
        assert fake.refused == []
    pages = read_pages(folder, session)
    assert set(pages) >= set(range(_PAGES - unlogged))
    if not begins_again:
        assert len(pages) == len(set(pages)), "each page is in the log once"
        branches = [event for event in read_events(folder, session) if isinstance(event.payload, BranchStarted)]
        assert len(branches) < 2, "one at most, before an answer that the framework did not save"


def run_program(command: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "GOOGLE_API_KEY": KEY}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def read_events(folder: Path, session: str) -> list[Event]:
    with DataFolder(folder / "data") as data:
        return list(data.open_conversation(session).log.read())


def read_pages(folder: Path, session: str) -> list[int]:
    """The numbers of the pages in the log of a session."""
    added = [event.payload.message for event in read_events(folder, session) if isinstance(event.payload, MessageAdded)]
    results = [part for message in added for part in message.parts if isinstance(part, Result)]
    texts = [join_result_text(result) for result in results]
    return [int(text.split(":")[0].split()[-1]) for text in texts if text.startswith("Page ")]


def check_summaries(run: Callable[[Fake], str], wire: str, *, question: str, answer: str) -> None:
    """`run` makes a long run. The agent's own model is asked beside it, with the tools of its calls, and the answer is
    used.
    """
    asked = LongTask(60, parallel=1)
    questions: list[dict[str, Any]] = []

    def script(body: dict[str, Any]) -> Step:
        if question not in str(body):
            return asked(body)
        questions.append(body)
        return answer

    with run_provider(wire, script, WINDOW) as fake:
        assert FINAL_ANSWER in run(fake)
        assert fake.refused == [], fake.refused
        assert questions
        assert all(body.get("tools") == fake.seen[0].body.get("tools") for body in questions)
        assert "Pages of the harbor log were read" in str(fake.seen[-1].body)


SUMMARIES = {
    "default": {
        "question": "[tidegate: the state note]",
        "answer": write_answer(state=f"- {SUMMARY}"),
    },
    "digitorn": {
        "question": "Summarize the conversation above",
        "answer": f"## Session intent\n- agent concluded: {SUMMARY}",
    },
}
"""What the model is asked under a policy, and what it writes."""


GREETING = "Hello."
SECRET = "heliotrope-7731"
TOLD = f"My passphrase is {SECRET}."
QUESTION = "What is my passphrase?"


def answer_and_recall(body: dict[str, Any]) -> Step:
    """A model that answers politely, and looks the passphrase up with the tool `recall` when it is asked for it."""
    text = str(body)
    if QUESTION not in text:
        return "Good day. What can I do for you?"
    if "recalled" in text:
        return "I do not know it."
    return ScriptedAnswer(calls=(Call("recalled", "recall", '{"what":"passphrase","offset":0}'),), number=900)


Talk = Callable[[Fake, str, Sequence[str]], object]
"""Sends the messages of a user, named by the second argument, one after the other, in one conversation."""


def check_users_stay_apart(talk: Talk, wire: str) -> None:
    """Two users greet alike. One tells a secret, and the other asks for it."""
    with run_provider(wire, answer_and_recall) as fake:
        talk(fake, "alice", [GREETING, TOLD])
        talk(fake, "bob", [GREETING, QUESTION])
        check_secret_stays(fake)


def check_secret_stays(fake: Fake) -> None:
    """No request in which the secret is asked for has it, also after `recall` was called."""
    assert fake.refused == []
    asked = [seen.raw.decode() for seen in fake.seen if QUESTION in seen.raw.decode()]
    assert any("recalled" in each for each in asked)
    assert not [each for each in asked if SECRET in each]


# --- refusals for length ----------------------------------------------------------------------------------------------

NewRun = Callable[[Fake, int, int], str]
"""Makes a new run, with this window and this output limit (0: none), and returns its last answer."""


def check_output_limit(run: NewRun, wire: str) -> None:
    """A server that counts the output that is asked for as a part of its window never has to refuse."""
    with run_provider(wire, LongTask(20), 8_000, counts_output=True) as fake:
        assert FINAL_ANSWER in run(fake, 8_000, 4_000)
        assert fake.refused == []


def check_learned_window(run: NewRun, wire: str) -> None:
    """The window is smaller than believed. The refusal is answered with a smaller view, and the next run knows it."""
    task = LongTask(16)
    with run_provider(wire, task, 6_000) as fake:
        assert FINAL_ANSWER in run(fake, WINDOW, 0)
        first = len(fake.refused)
        assert 1 <= first <= 2
        task.left = list(range(16))
        assert FINAL_ANSWER in run(fake, WINDOW, 0)
        assert len(fake.refused) == first


def check_many_refusals(run: NewRun, wire: str) -> None:
    """One turn in which every fourth request is refused twice, in words that name no number."""
    task, left = LongTask(24), [4, 4, 8, 8, 12, 12, 16, 16, 20, 20]

    def script(body: dict[str, Any]) -> Step:
        if left and 24 - len(task.left) == left[0]:
            left.pop(0)
            return refusal(wire, 400, "Your input exceeds the context window of this model.")
        return task(body)

    with run_provider(wire, script) as fake:
        assert FINAL_ANSWER in run(fake, WINDOW, 0)
        assert len(fake.refused) == 10
    assert not left


def check_unknown_words(run: NewRun, wire: str) -> None:
    """The provider refuses large requests in words that are not known. A smaller one is tried, and the size learned."""
    task, odd = LongTask(16), "Nope. 31 sheets of paper do not go into this envelope."

    def script(body: dict[str, Any]) -> Step:
        return refusal(wire, 400, odd) if _count_pages(body) > 8 else task(body)

    with run_provider(wire, script) as fake:
        assert FINAL_ANSWER in run(fake, WINDOW, 0)
        assert _count_pages(fake.seen[9].body) == 9
        assert _count_pages(fake.seen[10].body) < 5
        first = len(fake.refused)
        assert 1 <= first <= 2
        task.left = list(range(16))
        assert FINAL_ANSWER in run(fake, WINDOW, 0)
        assert len(fake.refused) == first


def check_first_error(run: NewRun, wire: str) -> None:
    """The smaller request is refused, too: the error is the first one."""
    task, words = LongTask(8), iter(("Nope, because of A.", "Nope, because of B.", "Nope, because of C."))

    def script(body: dict[str, Any]) -> Step:
        return task(body) if task.left else refusal(wire, 400, next(words))

    with run_provider(wire, script) as fake:
        with pytest.raises(Exception, match="because of A") as raised:
            run(fake, WINDOW, 0)
        assert "because of B" not in str(raised.value)
        assert len(fake.refused) == 2
        assert _count_pages(fake.seen[-2].body) == 8
        assert _count_pages(fake.seen[-1].body) < 5


def _count_pages(body: dict[str, Any]) -> int:
    return str(body).count("The harbor log has nothing new") // 60


MISPLACED = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
)


def count_thinking(body: dict[str, Any]) -> int:
    """Blocks of thinking in a request to Anthropic."""
    contents = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    return sum(block["type"] == "thinking" for blocks in contents for block in blocks if isinstance(block, dict))


def check_refused_thinking(run: NewRun) -> None:
    """The provider refuses the thinking of the first edited request. It gets that one without any."""
    task, refused = LongTask(40, parallel=2, thinking="Let me look."), list[int]()

    def script(body: dict[str, Any]) -> Step:
        is_edited = str(body).count("The harbor log has nothing new") < 60 * (40 - len(task.left))
        if is_edited and not refused:
            refused.append(len(fake.seen))
            return refusal("anthropic", 400, MISPLACED)
        return task(body)

    with run_provider("anthropic", script, WINDOW) as fake:
        assert FINAL_ANSWER in run(fake, WINDOW, 0)
        bodies = [seen.body for seen in fake.seen]
    assert len(bodies) == 22
    assert count_thinking(bodies[refused[0] - 1]) > 0
    assert count_thinking(bodies[refused[0]]) == 0
    assert count_thinking(bodies[refused[0] + 1]) == 1
    assert all("thinking" in body for body in bodies)


REFUSAL_CHECKS = [
    check_output_limit,
    check_learned_window,
    check_many_refusals,
    check_unknown_words,
    check_first_error,
]
