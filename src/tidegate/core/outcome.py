"""The outcome of a stage: edits, requests for a summary, and effects (files, memory) for the caller to carry out.

A stage is pure: `(View, Budget, **settings) -> Outcome`. If it needs a model or a file, it returns a request as data.
"""

import hashlib

import msgspec

from tidegate.core.edits import Edit
from tidegate.core.messages import SUMMARY, Message, user_message


class SummaryRequest(msgspec.Struct, frozen=True):
    """A request to summarize messages in at most `max_tokens` (and `max_chars`, if not 0).

    The text becomes a message of `kind` after the message `after_id`, between `prefix` and `suffix`. `previous` is an
    earlier summary that the messages continue; the new one must keep its facts. `fallback` is the text to use if no
    model writes one; without it, the digest is used. `line_start` begins each further line of the text: a line that
    a tool wrote must not look like a paragraph of the user.
    """

    messages: tuple[Message, ...]
    instructions: str
    max_tokens: int
    max_chars: int = 0
    previous: str = ""
    prefix: str = ""
    suffix: str = ""
    kind: str = SUMMARY
    after_id: str = ""
    fallback: str = ""
    line_start: str = ""

    def to_message(self, text: str) -> Message:
        """Return the message that shows this summary."""
        if self.line_start:
            text = f"\n{self.line_start}".join(text.splitlines())
        return user_message(self.prefix + text + self.suffix, self.kind)


class Spill(msgspec.Struct, frozen=True):
    """Write this text to a file before it leaves the view. `path` is relative to the session's folder.

    With `ids` the caller writes the full text of these messages, which it reads from the log.
    """

    path: str
    text: str
    sha256: str
    append: bool = False
    ids: tuple[str, ...] = ()


class Flush(msgspec.Struct, frozen=True):
    """Write a summary of the leaving messages to long-term memory. `text` is the summary, once it is made."""

    request: SummaryRequest
    text: str = ""


Effect = Spill | Flush


class Outcome(msgspec.Struct, frozen=True):
    """What a stage wants done. `grows`: the edits may enlarge the view, as a hint does, or a rule that counts."""

    edits: tuple[Edit, ...] = ()
    requests: tuple[SummaryRequest, ...] = ()
    effects: tuple[Effect, ...] = ()
    why: str = ""
    grows: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing is to be done."""
        return not (self.edits or self.requests or self.effects)


NO_OUTCOME = Outcome()


def make_spill(path: str, text: str, *, append: bool = False) -> Spill:
    return Spill(path, text, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), append)
