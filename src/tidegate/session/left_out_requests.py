"""The requests of the user that a client left out when it rewrote the beginning of its list.

Gemini CLI saves a long conversation without its first request, and sends it like that when it continues. The user took
nothing back, so the model reads these requests once more: as one message before the client's list, in the user's words.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from tidegate.core.events import Event, EventPayload, HostMessageAdded, MessageAdded
from tidegate.core.messages import HANDOFF, MarkedText, Message, Text, is_user_request, text_of
from tidegate.core.text.clip import clip_tokens
from tidegate.core.text.user_rules import rules_of
from tidegate.core.tokens.counting import TokenCounter, count_message

_HEAD: Final = MarkedText(
    "[The client left the following requests of the user out of its list. They are older than the messages below, and"
    " the user did not take them back.]"
)
_MIN_TOKENS: Final = 200


def restore_requests(
    events: Iterable[Event],
    earlier: AbstractSet[str],
    rewritten: Sequence[tuple[str, Message]],
    rules: AbstractSet[str],
    size: int,
    counter: TokenCounter,
) -> list[EventPayload]:
    """A message with what the user typed in the `earlier` messages and the `rewritten` part of the list does not have.

    The part is given by its keys and messages. Empty if nothing is missing, or if the user typed something new in that
    part: then the user changed a request. The message has at most about `size` tokens; of too many requests, the first
    and the newest stay. A text with a rule that is not one of the `rules` does not make it one again: the user took it
    back.
    """
    keys = {key for key, _ in rewritten}
    typed_now = {key for key, message in rewritten if _list_typed(message)}
    words = "\n".join(text_of(message) for _, message in rewritten)
    texts = list[str]()
    for event in events:
        what = event.payload
        if not isinstance(what, MessageAdded) or what.message.id not in earlier:
            continue
        if what.message.kind == HANDOFF and what.message.parts[:1] == (_HEAD,):
            texts += [part.text for part in what.message.parts[1:] if isinstance(part, Text)]
        elif isinstance(what, HostMessageAdded) and what.key in keys:
            typed_now.discard(what.key)
        elif isinstance(what, HostMessageAdded):
            texts += _list_typed(what.message)
    texts = [text for text in dict.fromkeys(texts) if text not in words]
    if not texts or typed_now:
        return []
    message = _write_message(texts, rules, size, counter)
    return [MessageAdded(message, count_message(message, counter))]


def _list_typed(message: Message) -> list[str]:
    """The texts of a request that the user typed."""
    if not is_user_request(message):
        return []
    texts = [part for part in message.parts if isinstance(part, Text) and part.text.strip()]
    return [part.text for part in texts if not isinstance(part, MarkedText) or part.typed]


def _write_message(texts: Sequence[str], rules: AbstractSet[str], size: int, counter: TokenCounter) -> Message:
    texts_by_number, left = dict[int, MarkedText](), size
    for number in [0, *range(len(texts) - 1, 0, -1)]:
        text = clip_tokens(texts[number], max(left, _MIN_TOKENS), counter).text
        left -= counter.count_text(text)
        if left < 0 and texts_by_number:
            break
        is_current = set(rules_of(Message("user", (Text(text),)))) <= rules
        texts_by_number[number] = MarkedText(text, typed=is_current)
    return Message(
        "user",
        (_HEAD, *(texts_by_number[number] for number in sorted(texts_by_number))),
        kind=HANDOFF,
        user_visible=False,
    )
