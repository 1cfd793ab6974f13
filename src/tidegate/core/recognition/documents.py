"""Documents with instructions: project rules, skills, templates of commands, playbooks, recognized by their path.

They are data, as all that a tool read: nothing in them becomes a rule of the user. But an agent that must follow one
needs all of it, so a sweep keeps them whole or not at all. Those of dependencies and of the web have no such rank.
"""

import re
from typing import Final

from tidegate.core.messages import Call
from tidegate.core.recognition.shell_commands import only_reads
from tidegate.core.text.tool_calls import classify_call, find_command, iterate_strings, parse_call_arguments

_INSTRUCTIONS: Final = re.compile(
    r"(?:^|/)(?:(?:CLAUDE|AGENTS|GEMINI|CONTRIBUTING|SKILL|copilot-instructions)(?:\.local)?\.md|\.cursorrules"
    r"|\.(?:claude|cursor|codex|github|opencode|gemini|agents)/(?:[\w.-]+/)*(?:commands|rules|skills|prompts|agents"
    r"|instructions)/.+\.(?:md|mdc|toml)|playbooks?/[^/]+\.md)$",
    re.I,
)
_FOREIGN: Final = re.compile(
    r"://|(?:^|/)(?:node_modules|bower_components|vendor|third_party|site-packages|dist-packages|\.venv|venv|\.cargo"
    r"|pkg/mod|\.m2|Pods)/",
    re.I,
)
_PATH: Final = re.compile(r"[^\s'\"`|;&<>()]{3,300}")


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
