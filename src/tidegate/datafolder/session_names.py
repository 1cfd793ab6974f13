"""Names and titles of sessions: a new name sorts by time, and a title is what the user asked for first."""

import re
import time
from itertools import islice
from typing import Final

from tidegate.core.errors import TidegateError
from tidegate.core.events import MessageAdded
from tidegate.core.messages import is_user_request, text_of
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.terminal_text import clean_text
from tidegate.datafolder.session_logs import LogSource
from tidegate.store.errors import SessionNotFound
from tidegate.store.session_log import read_stored_events

_SUFFIX: Final = LazyPattern(r"-\d{8}-\d{6}(-\w+)?$")
_LETTERS: Final = "bcdfghjkmnpqrstvwxyz"
"""No vowels, so that no words arise, and no letter that looks like a digit."""
_MAX_TITLE_CHARS: Final = 120
_MAX_READ_CHARS: Final = 4_000
_MAX_BLOCK_CHARS: Final = 200_000
_CLIENT_BLOCKS: Final = LazyPattern(r"(?:\s*<([A-Za-z][\w-]*)>.*?</\1>)+", re.DOTALL)
"""Blocks such as <system-reminder>, which clients put in front of the words of their user."""
_MAX_SCANNED_EVENTS: Final = 12
"""Events at the beginning of a log that are searched for its first message."""


def make_session_name(like: str) -> str:
    """Return a new name that begins like this one: its beginning, the time, so that names sort, and four random
    letters, so that two of the same second differ."""
    import secrets  # noqa: PLC0415 - a list of the sessions makes no name

    letters = "".join(secrets.choice(_LETTERS) for _ in range(4))
    return f"{_SUFFIX.sub('', like)}-{time.strftime('%Y%m%d-%H%M%S')}-{letters}"


def read_session_title(logs: LogSource, name: str) -> str:
    """Return the first request of a session in one line, without secrets; "" if it has none. An unreadable log returns
    its error."""
    first = ""
    try:
        for event in islice(read_stored_events(logs.store, name, logs.blobs), _MAX_SCANNED_EVENTS):
            if isinstance(event.payload, MessageAdded) and is_user_request(event.payload.message):
                text = text_of(event.payload.message)[:_MAX_BLOCK_CHARS]
                blocks = _CLIENT_BLOCKS.match(text)
                if own := text[blocks.end() :].strip() if blocks else text:
                    return _make_title(logs, own)
                first = first or _make_title(logs, text)
    except SessionNotFound:  # it was removed meanwhile
        return ""
    except TidegateError as bad:
        return str(bad)
    return first


def _make_title(logs: LogSource, text: str) -> str:
    # Masked before it is cut: a part of a key would not be recognized.
    return " ".join(logs.mask(clean_text(text[:_MAX_READ_CHARS])).split())[:_MAX_TITLE_CHARS]
