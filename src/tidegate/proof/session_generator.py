"""Generates long sessions of a coding agent, the same ones for the same seed.

A user asks and sets rules; the agent reads, searches, runs tests that fail, edits, and calls several tools at once; now
and then there is an image or a text in another script. The demo and the tests use it, so no recording is shipped.
"""

import json
import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidegate.proof.sample_project import FailingTest, SampleProject

_Json = dict[str, object]

_SYSTEM_PROMPT = (
    "You are a coding agent in the repository of a web shop. Look before you change something: read the file, run its"
    " tests, make the smallest edit, run the tests again. Keep to the rules the user sets, also to the early ones."
)
_RULE_TEMPLATES = (
    "never touch files under src/gateway without asking me",
    "all amounts are Decimal, never float",
    "every fix gets a line in CHANGELOG.md under the heading 'Unreleased'",
    "the staging database is shop-stage-{number}, the other one is off limits",
    "functions stay under {number} lines",
    "answer in one paragraph, no lists",
)
_REQUEST_TEMPLATES = (
    "The nightly run is red again: {name} in {path} gives the wrong answer. Find out why and mend it.",
    "Customers report that {name} is slow since release 4.{number}. Please look into {path} and tell me what you find.",
    "Where is {name} used, and can its second parameter go? If so, remove it everywhere.",
    "Please add a check to {name} so that an empty value is refused, with a test.",
)

_STEP_WEIGHTS = (6, 4, 4, 3, 1, 2, 1)


class ToolUse(NamedTuple):
    """A tool call and its result."""

    tool: str
    arguments: Mapping[str, str | bool]
    result: str


def generate_session(turns: int, seed: int = 0) -> Iterator[_Json]:
    """Yield messages in OpenAI chat form: the system prompt, then `turns` requests with their answers."""
    author = SessionAuthor(random.Random(seed))
    yield {"role": "system", "content": _SYSTEM_PROMPT}
    for turn in range(turns):
        yield from author.write_turn(turn)


class SessionAuthor:
    """Writes the messages of an agent that works in a made-up project."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.project = SampleProject(rng)
        self._calls = 0
        self._steps = (
            self._read_file,
            self._search_code,
            self._run_tests,
            self._read_several,
            self._list_files,
            self._read_log,
            self._read_translation,
        )

    def write_turn(self, number: int) -> Iterator[_Json]:
        failure = self.project.pick_failure()
        yield self._write_request(number, failure)
        steps = self._rng.choices(self._steps, weights=_STEP_WEIGHTS, k=self._rng.randint(2, 7))
        for step in (self._read_file, *steps, self._fix_failure):
            yield from step(failure)
        words = f"{failure.function_name} in {failure.path} is mended: line {failure.line} now refuses an empty value."
        yield {
            "role": "assistant",
            "content": f"{words} All tests pass; ticket {self._rng.randint(1000, 9999)} can close.",
        }

    def write_step(self, failure: FailingTest) -> Iterator[_Json]:
        """Yield one answer with calls, and their results: the agent looks around."""
        (step,) = self._rng.choices(self._steps, weights=_STEP_WEIGHTS)
        yield from step(failure)

    # --- what the user says ---------------------------------------------------------------------------------------

    def _write_request(self, number: int, failure: FailingTest) -> _Json:
        rng = self._rng
        text = rng.choice(_REQUEST_TEMPLATES).format(
            name=failure.function_name, path=failure.path, number=rng.randint(1, 60)
        )
        if number == 0 or rng.random() < 0.2:
            rule = rng.choice(_RULE_TEMPLATES).format(number=rng.randint(20, 60))
            text = f"{text}\nA rule from now on: {rule}."
        if rng.random() < 0.1:
            text = f"{text}\nThe customer wrote: {self.project.write_foreign_text(rng.randint(40, 300))}"
        if number % 11 == 5:
            parts: list[_Json] = [
                {"type": "text", "text": f"{text}\nThis is what the page looks like."},
                {"type": "image_url", "image_url": {"url": self.project.make_screenshot()}},
            ]
            return {"role": "user", "content": parts}
        return {"role": "user", "content": text}

    # --- what the agent does --------------------------------------------------------------------------------------

    def write_group(self, text: str, *uses: ToolUse) -> Iterator[_Json]:
        """Yield an assistant message with its calls, and a result for each, in order."""
        wire_calls = []
        results: list[_Json] = []
        for tool, arguments, result in uses:
            self._calls += 1
            ident = f"call_{self._calls:06d}"
            function = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
            wire_calls.append({"id": ident, "type": "function", "function": function})
            results.append({"role": "tool", "tool_call_id": ident, "content": result})
        message: _Json = {"role": "assistant", "content": text or None, "tool_calls": wire_calls}
        if self._rng.random() < 0.3:
            message["reasoning_content"] = f"I should look at {uses[0].tool} first and then decide what comes next."
        yield message
        yield from results

    def _read_file(self, failure: FailingTest) -> Iterator[_Json]:
        path = failure.path if self._rng.random() < 0.5 else self.project.pick_path()
        yield from self.write_group(
            f"Let me read {path}.", ToolUse("read_file", {"path": path}, self.project.read_file(path))
        )

    def _search_code(self, failure: FailingTest) -> Iterator[_Json]:
        word = failure.function_name if self._rng.random() < 0.5 else failure.function_name.split("_")[1]
        yield from self.write_group("", ToolUse("grep", {"pattern": word, "path": "src"}, self.project.search(word)))

    def _run_tests(self, failure: FailingTest) -> Iterator[_Json]:
        yield from self.write_group(
            "", ToolUse("run_tests", {"select": failure.test_id}, self.project.run_tests(failure))
        )

    def _read_several(self, failure: FailingTest) -> Iterator[_Json]:
        paths = [self.project.pick_path() for _ in range(self._rng.randint(2, 4))]
        reads = [ToolUse("read_file", {"path": path}, self.project.read_file(path)) for path in paths]
        search = ToolUse(
            "grep", {"pattern": failure.function_name, "path": "src"}, self.project.search(failure.function_name)
        )
        yield from self.write_group("I will read these together.", *reads, search)

    def _list_files(self, failure: FailingTest) -> Iterator[_Json]:
        yield from self.write_group(
            "", ToolUse("list_files", {"path": "src", "names": True}, self.project.list_files())
        )

    def _read_log(self, failure: FailingTest) -> Iterator[_Json]:
        command = {"command": f"tail -n 200 log/{failure.path.split('/')[1]}.log"}
        yield from self.write_group("What does the log say?", ToolUse("shell", command, self.project.write_log()))

    def _read_translation(self, failure: FailingTest) -> Iterator[_Json]:
        path = f"docs/ja/{failure.function_name}.md"
        yield from self.write_group(
            "", ToolUse("read_file", {"path": path}, self.project.write_foreign_text(self._rng.randint(200, 900)))
        )

    def _fix_failure(self, failure: FailingTest) -> Iterator[_Json]:
        yield from self.write_group(
            "The cause is clear now.",
            ToolUse("edit_file", self.project.edit_file(failure), f"edited {failure.path}: 1 place"),
        )
        yield from self.write_group("", ToolUse("run_tests", {"select": "tests"}, self.project.run_tests(None)))
