"""Sessions of a coding agent, made up, with the shape of recorded ones; and that shape, measured.

    python bench/agent_sessions.py                  the shape of 200 sessions that are made here
    python bench/agent_sessions.py FOLDER           beside that of the recordings in a folder
    python bench/agent_sessions.py FOLDER --only cc-,codex-    only of those whose names begin so

The tables below are quantiles that this measured in 147 recordings of Claude Code, Codex, OpenCode, Pi, Copilot and
Gemini CLI. Only the lengths are theirs. A session is a list of steps. A step is an answer of the model: calls with
their results, or a text that ends the turn, with the user's next message behind it. Each step is a function of the
session's name and its number, so that a client and a provider in two processes make the same one without talking.
"""

import argparse
import json
import math
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from tidegate.lab.replay.recording_file import find_chat_recordings, get_recording_name, read_chat_recording

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
Quantiles = tuple[int, ...]
"""Lengths in characters, at `LEVELS`."""


class ToolShape(NamedTuple):
    """A kind of tools: its share of all calls, and how long its arguments and its results are."""

    name: str
    share: float
    arguments: Quantiles
    results: Quantiles


TOOLS = (
    ToolShape(
        "bash", 0.49, (68, 117, 155, 234, 416, 693, 1_889, 14_990), (31, 153, 434, 1_647, 5_395, 8_638, 23_411, 64_268)
    ),
    ToolShape(
        "edit", 0.20, (247, 527, 942, 1_840, 3_827, 5_826, 12_180, 35_177), (88, 113, 144, 176, 241, 814, 3_144, 32_963)
    ),
    ToolShape(
        "read",
        0.16,
        (69, 96, 110, 121, 130, 139, 151, 184),
        (409, 1_164, 2_242, 4_597, 11_319, 21_108, 43_943, 84_833),
    ),
    ToolShape(
        "other", 0.09, (34, 40, 72, 381, 1_171, 1_913, 7_181, 24_042), (22, 22, 58, 180, 1_906, 3_764, 14_959, 68_341)
    ),
    ToolShape(
        "search", 0.06, (43, 112, 142, 161, 177, 189, 215, 323), (16, 66, 336, 1_462, 4_109, 6_287, 16_366, 19_976)
    ),
)
KINDS = {
    "bash": ("bash", "exec", "exec_command", "shell", "write_stdin"),
    "edit": ("edit", "apply_patch", "write"),
    "read": ("read", "view"),
    "search": ("grep", "glob"),
}
"""Names of tools, in small letters. All that are not here are "other"."""
USER_CHARS: Quantiles = (15, 39, 94, 245, 1_928, 4_970, 10_891, 30_000)
ANSWER_CHARS: Quantiles = (107, 437, 958, 1_543, 2_445, 3_276, 5_580, 12_000)
REMARK_CHARS: Quantiles = (20, 70, 110, 170, 230, 290, 600, 2_000)
REMARK_SHARE = 0.41
"""Of the answers with calls: those that also say something."""
MORE_CALLS_SHARE = 0.15
"""The chance of one more call beside a call."""
ENDS_AT_ONCE = 0.33
"""The chance that the first answer to a message of the user is a text. A third of all turns have no call."""
ENDS_LATER = 1 / 14
"""The chance for each later answer."""

FILES = 60
"""In the project of a session."""
_WORDS = """
account batch buffer cache call catalog client column config count cursor delay draft edge entry error event field file
filter folder frame group handle header index item job key label layer limit line list lock log map message meter metric
node note offset option order owner page parser part path plan pool port query queue range reader record region report
request result route row rule run schema scope session share signal size slot source span stage state step store stream
table target task test text thread token total trace turn unit user value view window worker writer zone
""".split()


class Step(NamedTuple):
    """An answer: calls by their ids, with a remark, or the text at the end of a turn."""

    text: str
    calls: tuple[tuple[str, str, dict[str, Any]], ...]
    """Id, name and arguments."""


def draw_length(draw: random.Random, quantiles: Quantiles) -> int:
    """A length, on straight lines between the logarithms of the quantiles."""
    level = draw.random()
    at = bisect_right(LEVELS, level)
    if at == 0:
        return quantiles[0]
    low, high = quantiles[at - 1], quantiles[at]
    share = (level - LEVELS[at - 1]) / (LEVELS[at] - LEVELS[at - 1])
    return round(math.exp(math.log(low) + share * (math.log(high) - math.log(low))))


@cache
def _make_lines(kind: str) -> tuple[str, tuple[int, ...]]:
    """A megabyte of lines, and where each begins."""
    draw = random.Random(kind)

    def word() -> str:
        return draw.choice(_WORDS)

    def name() -> str:
        return f"{word()}_{word()}"

    makers: dict[str, Sequence[Callable[[], str]]] = {
        "code": (
            lambda: f"    def {name()}(self, {word()}: int, {word()}: str) -> {word().capitalize()}:",
            lambda: f"        {name()} = self._{name()}[{word()}]",
            lambda: f"        if {name()} is None or {word()} > {draw.randint(2, 900)}:",
            lambda: f'            raise {word().capitalize()}Error(f"no {word()} for {{{word()}}}")',
            lambda: f"        return {name()}({word()}, {word()}=self.{name()})",
            lambda: f"        for {word()} in sorted(self._{name()}.{word()}s):",
            lambda: f"class {word().capitalize()}{word().capitalize()}({word().capitalize()}):",
            lambda: "",
        ),
        "output": (
            lambda: f"tests/{word()}/test_{name()}.py::test_{name()}_{word()} PASSED",
            lambda: f"src/{word()}/{name()}.py:{draw.randint(1, 900)}: error: {word()} has no {word()} [{word()}-arg]",
            lambda: f"-rw-r--r-- 1 user user {draw.randint(90, 90_000)} Jun 12 10:{draw.randint(10, 59)} {name()}.py",
            lambda: f"{draw.randbytes(4).hex()} {word()}: {word()} the {word()} of a {word()}",
            lambda: f"  {word()} {draw.random():.3f}s {word()}={draw.randint(0, 5_000)} {word()}={word()}",
        ),
        "prose": (
            lambda: f"The {word()} of the {word()} is read before the {word()} has its {word()}.",
            lambda: f"- `{name()}` in `src/{word()}/{name()}.py` now checks the {word()} and the {word()}.",
            lambda: f"I changed the {word()} so that a {word()} without a {word()} keeps its {word()}.",
            lambda: f"We should look at the {word()} of {name()}, because the {word()} fails after each {word()}.",
        ),
    }
    lines: list[str] = []
    size = 0
    while size < 1_000_000:
        lines.append(draw.choice(makers[kind])())
        size += len(lines[-1]) + 1
    return "\n".join(lines) + "\n", tuple(accumulate((len(line) + 1 for line in lines[:-1]), initial=0))


def make_text(draw: random.Random, kind: str, chars: int) -> str:
    """About `chars` characters of whole lines of a kind, and a part of one."""
    text, starts = _make_lines(kind)
    start = starts[draw.randrange(len(starts))]
    return (text[start:] + text)[:chars] if start + chars > len(text) else text[start : start + chars]


def _draw_path(name: str, draw: random.Random) -> str:
    """A file of the project of a session. A few files are used most."""
    number = int(FILES * draw.random() ** 2)
    of_file = random.Random(f"{name} file {number}")
    return f"src/{of_file.choice(_WORDS)}/{of_file.choice(_WORDS)}_{of_file.choice(_WORDS)}.py"


def _make_arguments(tool: ToolShape, name: str, draw: random.Random) -> dict[str, Any]:
    path, chars = _draw_path(name, draw), draw_length(draw, tool.arguments)
    if tool.name == "edit":
        old = make_text(draw, "code", max(20, (chars - 80) // 2))
        return {"file_path": path, "old_string": old, "new_string": make_text(draw, "code", max(20, len(old)))}
    if tool.name == "read":
        return {"file_path": f"/home/user/project/{path}", "offset": draw.randint(1, 400), "limit": 200}
    if tool.name == "search":
        return {"pattern": "_".join(draw.choices(_WORDS, k=2)), "path": "/home/user/project/src", "glob": path}
    if tool.name == "bash":
        command = f"cd /home/user/project && python -m pytest -q {path} -k {draw.choice(_WORDS)}"
        return {"command": command if chars < 200 else f"{command}; {make_text(draw, 'output', chars - 100)}"}
    return {"note": make_text(draw, "prose", chars)}


def _make_result(tool: ToolShape, draw: random.Random) -> str:
    chars = draw_length(draw, tool.results)
    if tool.name != "read":
        return make_text(draw, "output", chars)
    first = draw.randint(1, 400)
    lines = make_text(draw, "code", chars * 6 // 7).split("\n")
    return "\n".join(f"{number:>5}\t{line}" for number, line in enumerate(lines, first))


def make_answer(name: str, step: int, *, is_first: bool) -> Step:
    """The answer of a step. `is_first`: it follows a message of the user.

    Ids of calls, and the beginning of an answer without calls, have the name and the step in them.
    """
    draw = random.Random(f"{name} {step}")
    if draw.random() < (ENDS_AT_ONCE if is_first else ENDS_LATER):
        return Step(f"mark-{name}-{step}-a {make_text(draw, 'prose', draw_length(draw, ANSWER_CHARS))}", ())
    text = make_text(draw, "prose", draw_length(draw, REMARK_CHARS)) if draw.random() < REMARK_SHARE else ""
    calls: list[tuple[str, str, dict[str, Any]]] = []
    while not calls or draw.random() < MORE_CALLS_SHARE:
        (tool,) = draw.choices(TOOLS, [tool.share for tool in TOOLS])
        call_id = f"toolu_mark-{name}-{step}-{len(calls)}"
        calls.append((call_id, tool.name, _make_arguments(tool, name, draw)))
    return Step(text, tuple(calls))


def make_result(call_id: str, tool: str) -> str:
    """The result of a call."""
    return _make_result(next(each for each in TOOLS if each.name == tool), random.Random(call_id))


def make_request_text(name: str, step: int) -> str:
    """The message of the user before a step. It begins with its mark."""
    draw = random.Random(f"{name} user {step}")
    return f"mark-{name}-{step}-u {make_text(draw, 'prose', draw_length(draw, USER_CHARS))}"


def make_tools() -> list[dict[str, Any]]:
    """The tools as Anthropic's API takes them, each with a page of description, as those of real agents have."""
    draw = random.Random("tools")
    return [
        {
            "name": tool.name,
            "description": make_text(draw, "prose", 2_500),
            "input_schema": {"type": "object", "properties": {}},
        }
        for tool in TOOLS
    ]


def make_system_prompt() -> str:
    return make_text(random.Random("system"), "prose", 12_000)


# --- the shape --------------------------------------------------------------------------------------------------------


def make_chat(name: str, steps: int) -> Iterator[dict[str, Any]]:
    """A session in OpenAI chat form."""
    is_first = True
    for step in range(steps):
        if is_first:
            yield {"role": "user", "content": make_request_text(name, step)}
        answer = make_answer(name, step, is_first=is_first)
        is_first = not answer.calls
        calls = [
            {"id": call_id, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
            for call_id, tool, arguments in answer.calls
        ]
        yield {"role": "assistant", "content": answer.text} | ({"tool_calls": calls} if calls else {})
        for call_id, tool, _ in answer.calls:
            yield {"role": "tool", "tool_call_id": call_id, "content": make_result(call_id, tool)}


def _length_of(content: object) -> int:
    if isinstance(content, list):
        return sum(len(part.get("text", "")) for part in content)
    return len(content) if isinstance(content, str) else 0


def _kind_of(tool: str) -> str:
    return next((kind for kind, names in KINDS.items() if tool.lower() in names), "other")


def measure_shape(sessions: Iterable[Iterable[dict[str, Any]]]) -> dict[str, list[int]]:
    """The lengths of all messages by their kind, and the numbers of calls, answers and messages."""
    shape: dict[str, list[int]] = defaultdict(list)
    for session in sessions:
        kinds: dict[str, str] = {}
        answers = messages = chars = 0
        for message in session:
            length = _length_of(message.get("content"))
            messages, chars = messages + 1, chars + length
            if message["role"] == "user":
                shape["user"].append(length)
                if answers:
                    shape["answers in a turn (number)"].append(answers)
                answers = 0
            elif message["role"] == "tool":
                shape[f"{kinds.get(message['tool_call_id'], 'other')} results"].append(length)
            elif message["role"] == "assistant":
                answers += 1
                calls = message.get("tool_calls") or []
                if calls:
                    shape["calls in an answer (number)"].append(len(calls))
                shape["text beside calls" if calls else "answers without calls"].append(length)
                for call in calls:
                    kinds[call["id"]] = _kind_of(call["function"]["name"])
                    arguments = len(call["function"]["arguments"])
                    shape[f"{kinds[call['id']]} arguments"].append(arguments)
                    chars += arguments
        shape["messages of a session (number)"].append(messages)
        shape["session"].append(chars)
    return shape


def print_shape(title: str, shape: dict[str, list[int]]) -> None:
    print(f"{title}\n{'characters of':34}{'count':>8}{'mean':>9}" + "".join(f"{level:>9.0%}" for level in LEVELS))
    for name, lengths in sorted(shape.items()):
        lengths.sort()
        found = (lengths[min(len(lengths) - 1, int(level * len(lengths)))] for level in LEVELS)
        print(f"{name:34}{len(lengths):>8,}{mean(lengths):>9,.0f}" + "".join(f"{each:>9,}" for each in found))
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", default="", metavar="NAMES", help="how the recordings' names begin")
    options = parser.parse_args()
    if options.folder:
        paths = find_chat_recordings([options.folder])
        beginnings = tuple(options.only.split(","))
        chosen = [path for path in paths if get_recording_name(path).startswith(beginnings)]
        recordings = ([line.message for line in read_chat_recording(path)] for path in chosen)
        print_shape(f"{len(chosen)} recordings", measure_shape(recordings))
    print_shape("made up", measure_shape(make_chat(f"s{number}", 100) for number in range(200)))


if __name__ == "__main__":
    main()
