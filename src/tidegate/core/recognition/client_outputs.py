"""What particular clients print around the output of a tool, in one table. Nothing else names the texts of a client.

Each was recorded with the client in its comment. `tidegate view` of a session of that client shows what one changes.
"""

import re
from typing import Final

from tidegate.core.text.lazy_pattern import LazyPattern

ENVELOPE_LINE: Final = LazyPattern(
    r"(?:Chunk ID: \w+|Wall time:? [\d.]+ seconds|Original token count: \d+|Process exited with code 0|Script completed"
    r"|Output:)\s*$|Shell cwd was reset to "
)
"""A line around an output, which only the client needs (Codex; the last one is of Claude Code)."""
EXIT_LINE: Final = LazyPattern(
    r"\s*\[?(?:Process exited with code \d|Process running with session ID \d|exit (?:code|status):? \d)", re.I
)
EXIT_ZERO_LINE: Final = LazyPattern(r"\s*\[?(?:Process exited with code|exit (?:code|status):?) 0\]?\s*$", re.I)
EXIT_CODE: Final = LazyPattern(r"\[exit code (\d+)\]|(?:Process )?exit(?:ed with)? code:? (\d+)", re.I)
"""The exit code that a client adds to an output (Codex, Claude Code, Copilot, tidegate)."""
RUNNING: Final = LazyPattern(
    r"running in (?:the )?background with ID:? ([\w-]+)|Process running with session ID (\w+)"
    r'|\{"chunk_id":[^{}]{0,200}"session_id":(\w+)'
)
"""A command that went on in the background, with its id (Claude Code, Codex, scripts of Codex)."""
RUNNING_KEYS: Final = ("session_id", "bash_id", "shell_id", "shellId", "task_id")
"""Arguments of a call that asks for the output of such a command (Codex, Claude Code, Copilot)."""
RUNNING_IN_SCRIPT: Final = LazyPattern(r"write_stdin\(\{[^{}]{0,80}session_id\W{1,5}(\d+)")
WRAPPED_COMMAND: Final = LazyPattern(r'exec_command\(\{\s*"?cmd"?:\s*"((?:[^"\\]|\\.)+)"')
"""A command, or a question for its output, in a call that runs a script (Codex)."""
ERROR_TAG: Final = LazyPattern(r"</?tool_use_error>")
"""The tag around the error of a tool (Claude Code)."""
CHATTER_LINE: Final = LazyPattern(r"\s*(?:warning:|hint:|note:|\(\w+ completed with no output\))", re.I)
"""A line that is not an outcome (git; the last one is of Claude Code)."""
REFUSAL_WORDS: Final = LazyPattern(r"the user (?:said|says|answered|responded)[^:\n]{0,40}:", re.I)
"""What comes before the words of a user who refused a call (Claude Code)."""
REFUSAL_NOTICE: Final = LazyPattern(r"\n{1,3}Note: The user's next message may contain a correction.*", re.S)
"""What follows these words (Claude Code)."""
QUESTION_TOOL: Final = LazyPattern(
    r"AskUserQuestion|ask_?(?:user|followup)(?:_question)?s?|request_user_input|question", re.I
)
"""A tool with which a client asks the user (Claude Code, Copilot and Gemini, Cline, Codex, OpenCode)."""
DIALOG_FRAME: Final = LazyPattern(
    r"^(?:User has answered your questions|Your questions have been answered|User responded):\s*"
    r"|\.?\s{0,3}You can now continue with (?:the user's|these) answers in mind\.\s*$"
)
"""What stands around the answers (Claude Code, OpenCode, Copilot)."""
DIALOG_PAIR, NEXT_DIALOG_PAIR = '"="', '", "'
"""What stands between a question and its answer, and before the next question (Claude Code, OpenCode)."""
