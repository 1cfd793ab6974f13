"""The end of a conversation as plain lines, which stay on the terminal after the app has closed."""

from typing import Final

from tidegate.datafolder.data_folder import DataFolder
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.conversation.log_pages import LogPager
from tidegate.tui.conversation.transcript_blocks import TranscriptBlock, find_call_subject

_ROWS: Final = 12
_MAX_LINES: Final = 20
_MAX_LINE_CHARS: Final = 400
_MAX_TEXT_CHARS: Final = 20_000


def format_transcript_tail(data: DataFolder, session: str, sanitizer: TextSanitizer) -> str:
    """Return the last lines of a session: messages in full, calls and compactions in one line each."""
    pager = LogPager(lambda: data.open_log(session))
    lines: list[str] = []
    for row in pager.read_before(pager.head + 1, _ROWS).rows[-_ROWS:]:
        text = _format_block(row.block, sanitizer)
        lines += [*([""] if lines and text and row.block.kind in ("user", "said") else []), *text]
    return "\n".join(line[:_MAX_LINE_CHARS] for line in lines[-_MAX_LINES:])


def _format_block(block: TranscriptBlock, sanitizer: TextSanitizer) -> list[str]:
    if block.kind in ("user", "said"):
        # The end is what stays. It is masked before it is cut: half a key would not be recognized.
        lines = sanitizer(block.text[-_MAX_TEXT_CHARS:].strip("\n")).splitlines()
        return [f"> {line}" for line in lines] if block.kind == "user" else lines
    if block.kind == "call":
        failure = f" ({sanitizer.sanitize_line(block.failure)[:80]})" if block.failure else ""
        return [f"* {sanitizer.sanitize_line(f'{block.title} {find_call_subject(block.text)[:4000]}')[:120]}{failure}"]
    if block.kind == "edit":
        return [f"* {block.label}: {sanitizer.sanitize_line(block.title)[:120]}"]
    return []
