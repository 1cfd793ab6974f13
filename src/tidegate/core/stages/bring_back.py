"""The stage `bring_back`: originals that left the view and are named just now are quoted at the end of the request.

The stage only finds the names: in the newest request of the user, or in the newest calls. What the log has about them
is looked up by the session (`session/originals_lookup.py`), because a stage reads no log. What is found is inserted
after the last message, so that the cached prefix stays valid, and leaves with the next sweep.

The quotation has the role of the user, says that it is data, and indents every line of an original: no text in it can
pass for the end of the quotation or for a message of the user.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tidegate.core.budget import Budget
from tidegate.core.config.values import Share
from tidegate.core.messages import NOTE, Call, Message, calls_of, is_user_request, text_of
from tidegate.core.outcome import NO_OUTCOME, OriginalsRequest, Outcome
from tidegate.core.text.facts import find_facts
from tidegate.core.text.tool_calls import is_content_argument, iterate_strings, parse_call_arguments
from tidegate.core.view import View

_HEADING: Final = (
    "[Earlier work that left the view and is named now, quoted from the log (data; recall shows it by id):"
)
_END: Final = "]"
_LINE_START: Final = "  "
_KINDS: Final = ("path", "file", "id", "name", "uuid", "hash")
_THINGS: Final = re.compile(
    r"\b(?:(?:option|variant|approach|plan|step|phase|question|point|finding|issue) (?:[A-Z]|\d{1,3})"
    r"|the (?:plan|design|proposal|options|findings|review|report|decision|list|table))\b",
    re.IGNORECASE,
)
_MIN_NAME_CHARS: Final = 4
_MAX_NAMES: Final = 12
_MAX_REQUEST_CHARS: Final = 2_000
_MIN_TOKENS: Final = 100
_SOURCE: Final = re.compile(r"^(m\d+) ", re.MULTILINE)


def bring_back(
    view: View, budget: Budget, *, share: Share = 0.03, total: Share = 0.09, most: int = 2, calls: bool = True
) -> Outcome:
    """Quote up to `most` originals that left and that the newest request, or with `calls` the newest call, names.

    They take at most `share` of the room, and all that were brought back since the last sweep at most `total`.
    """
    new = view.items_since_reply()
    allowance = int(budget.room * share)
    if not view.first_edit_seq or not new or view.unanswered or allowance < _MIN_TOKENS:
        return NO_OUTCOME
    if any(is_brought_back(item.message) for item in new):
        return NO_OUTCOME
    held = sum(item.tokens for item in view.items if is_brought_back(item.message))
    if held + allowance > int(budget.room * total) or view.tokens + allowance > budget.room:
        return NO_OUTCOME
    names = _find_names([item.message for item in new], _newest_calls(view) if calls else ())
    if not names:
        return NO_OUTCOME
    request = OriginalsRequest(tuple(names), allowance, max(1, most), view.items[-1].message.id)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Outcome(originals=request, why=f"the newest messages name {shown}", grows=True)


def _newest_calls(view: View) -> tuple[Call, ...]:
    """The calls of the model's last reply, if their results are new."""
    last = next((item.message for item in reversed(view.items) if item.message.role == "assistant"), None)
    return tuple(calls_of(last)) if last is not None else ()


def _find_names(new: Sequence[Message], calls: Sequence[Call]) -> list[str]:
    texts = [text_of(message)[:_MAX_REQUEST_CHARS] for message in new if is_user_request(message)]
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(match[0] for match in _THINGS.finditer(text)))
    for text in (*texts, *_short_arguments(calls)):
        found.update(dict.fromkeys(fact.value for fact in find_facts(text) if fact.kind in _KINDS))
    return [name for name in found if len(name) >= _MIN_NAME_CHARS][:_MAX_NAMES]


def _short_arguments(calls: Sequence[Call]) -> Iterator[str]:
    for call in calls:
        for _, value in iterate_strings(parse_call_arguments(call)):
            if not is_content_argument(value):
                yield value


# --- the quotation ----------------------------------------------------------------------------------------------------


def quote_originals(originals: Sequence[tuple[str, str]]) -> str:
    """Return the quotation of originals, each a line that names it, beginning with its id, and its text."""
    lines = [_HEADING]
    for source, text in originals:
        lines.append(" ".join(source.split()))
        lines += [f"{_LINE_START}{line}" for line in text.splitlines()]
    return "\n".join([*lines, _END])


def is_brought_back(message: Message) -> bool:
    """Whether a message of the view is a quotation of originals."""
    return message.kind == NOTE and text_of(message).startswith(_HEADING)


def ids_brought_back(message: Message) -> frozenset[str]:
    """The ids of the originals that a message quotes."""
    return frozenset(_SOURCE.findall(text_of(message))) if is_brought_back(message) else frozenset()
