"""Documents with instructions: project rules, skills, templates of commands, playbooks, recognized by their path.

They are data, as all that a tool read: nothing in them becomes a rule of the user. But an agent that must follow one
needs all of it, so a sweep keeps them whole or not at all. Those of dependencies and of the web have no such rank.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from tidegate.core.messages import Call
from tidegate.core.recognition.shell_commands import only_reads
from tidegate.core.text.facts import find_rule_sentences
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.tool_calls import classify_call, find_command, iterate_strings, parse_call_arguments

_INSTRUCTIONS: Final = LazyPattern(
    r"(?:^|/)(?:(?:CLAUDE|AGENTS|GEMINI|CONTRIBUTING|SKILL|copilot-instructions)(?:\.local)?\.md|\.cursorrules"
    r"|\.(?:claude|cursor|codex|github|opencode|gemini|agents)/(?:[\w.-]+/)*(?:commands|rules|skills|prompts|agents"
    r"|instructions)/.+\.(?:md|mdc|toml)|playbooks?/[^/]+\.md)$",
    re.I,
)
_FOREIGN: Final = LazyPattern(
    r"://|(?:^|/)(?:node_modules|bower_components|vendor|third_party|site-packages|dist-packages|\.venv|venv|\.cargo"
    r"|pkg/mod|\.m2|Pods)/",
    re.I,
)
_PATH: Final = LazyPattern(r"[^\s'\"`|;&<>()]{3,300}")
_HEADING: Final = LazyPattern(r"\s*(?:\d+(?:→|\t|: ?|\| ?))?(#{1,6}) \S")  # with the number that a tool may print
_FENCE: Final = LazyPattern(r"\s*(?:\d+(?:→|\t|: ?|\| ?))?(?:```|~~~)")
_GOVERNING: Final = LazyPattern(r"\b(?:required?|must|never|always|do not|don't|before|rules?|important)\b", re.I)
"""Words of a heading that say that its section has to be followed."""


def instructions_read_by(call: Call) -> str:
    """The path of the document with instructions that a call reads, or "" if it reads none, or anything else too."""
    command = find_command(call)
    if command:
        if not only_reads(command):
            return ""
        paths = [path for path in _PATH.findall(command) if "/" in path or "." in path[1:]]
    elif classify_call(call) == "read":
        paths = [value for _, value in iterate_strings(parse_call_arguments(call)) if "\n" not in value]
    else:
        return ""
    instruction_paths = [path for path in paths if is_instructions(path)]
    return (
        instruction_paths[0]
        if len(instruction_paths) == 1 and len([path for path in paths if "." in path]) == 1
        else ""
    )


def is_instructions(path: str) -> bool:
    """Whether the file with this path tells an agent how to work on this project."""
    path = path.replace("\\", "/")
    return _INSTRUCTIONS.search(path) is not None and _FOREIGN.search(path) is None


@lru_cache(maxsize=64)
def find_rule_sections(text: str, chars: int) -> frozenset[int]:
    """The places of the lines of a document that stay in `chars` characters: all, or its sections with rules.

    A section goes from one heading to the next. Those stay first whose heading says that they have to be followed, then
    those of which rules are the largest part. Of a document without headings nothing stays if not all of it does.
    """
    lines = text.split("\n")
    if len(text) <= chars:
        return frozenset(range(len(lines)))
    section_lines: set[int] = set()
    for begin, end in sorted(_split_sections(lines), key=lambda each: _rank_section(lines, *each)):
        size = sum(len(line) + 1 for line in lines[begin:end])
        if size <= chars and _rank_section(lines, begin, end) < 0:
            chars -= size
            section_lines.update(range(begin, end))
    return frozenset(section_lines)


def _split_sections(lines: list[str]) -> list[tuple[int, int]]:
    starts: list[int] = []
    in_fence = False
    for place, line in enumerate(lines):
        if _FENCE.match(line):
            in_fence = not in_fence
        elif not in_fence and _HEADING.match(line):
            starts.append(place)
    return list(pairwise([*starts, len(lines)]))


def _rank_section(lines: list[str], begin: int, end: int) -> float:
    """Lower comes first; 0 for a section without rules."""
    body = "\n".join(lines[begin + 1 : end])
    share = sum(map(len, find_rule_sentences(body))) / max(1, len(body))
    return -share - (_GOVERNING.search(lines[begin]) is not None)
