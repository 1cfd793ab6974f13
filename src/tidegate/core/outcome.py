"""What a stage returns: edits, requests for a summary, and effects for the edge to carry out. One type for all stages.

A stage is pure: `(View, Budget, **settings) -> Outcome`. Where it needs a model or a file it says so as data.
"""

import hashlib

import msgspec

from tidegate.core.edits import Edit
from tidegate.core.messages import SUMMARY, Message


class SummaryRequest(msgspec.Struct, frozen=True):
    """Please write down what these messages say, in at most `max_tokens` (and `max_chars`, if not 0).

    The text comes back between `before` and `behind`, as a message of `kind` placed behind the message `after`.
    `previous` is the summary these messages continue; its facts are to be carried on.
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


class Spill(msgspec.Struct, frozen=True):
    """Write this text to a file of the session, before the view forgets it. `path` is inside the session's folder.

    With `ids` the text is what these messages said, in full, whatever the view shows of them: the edge reads the log.
    """

    path: str
    text: str
    sha256: str
    append: bool = False
    ids: tuple[str, ...] = ()


class Flush(msgspec.Struct, frozen=True):
    """Put what is about to leave into long-term memory: `text` is its summary once settled."""

    request: SummaryRequest
    text: str = ""


Effect = Spill | Flush


class Outcome(msgspec.Struct, frozen=True):
    """`grows` marks the one kind of edit that may enlarge the view: a reminder owed after a compaction."""

    edits: tuple[Edit, ...] = ()
    requests: tuple[SummaryRequest, ...] = ()
    effects: tuple[Effect, ...] = ()
    why: str = ""
    grows: bool = False

    @property
    def empty(self) -> bool:
        return not (self.edits or self.requests or self.effects)


NO_OUTCOME = Outcome()


def make_spill(path: str, text: str, *, append: bool = False) -> Spill:
    return Spill(path, text, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), append)
