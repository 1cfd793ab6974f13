"""A request with one more text of the user at its end.

Nothing before the text changes by a byte, so that the provider reads all of it from its cache. Where the last item is
the user's, the text goes into it: some providers want the sides to alternate.
"""

import msgspec

from tidegate.core.messages import Text
from tidegate.wire.splicing.message_form import MessageForm
from tidegate.wire.splicing.spans import find_elements, find_members

_encode = msgspec.json.encode


def append_user_text(form: MessageForm, text: bytes, words: str) -> bytes:
    """The request with these words of the user at the end of its messages."""
    member = find_members(text)[form.key]
    listed = text[member.value : member.end]
    if listed[:1] == b'"':  # a single text in place of a list
        return _insert(text, member.end - 1, _continue_string(words))
    elements = find_elements(listed)
    if form.joins_user_text and elements:
        last = elements[-1]
        longer = _join(form, listed[last.start : last.end], words)
        if longer is not None:
            return text[: member.value + last.start] + longer + text[member.value + last.end :]
    end = member.value + elements[-1].end if elements else member.value + 1
    return _insert(text, end, (b"," if elements else b"") + form.encode_item("user", [Text(words)]))


def _join(form: MessageForm, item: bytes, words: str) -> bytes | None:
    """The last item with the words in it; None if it is not the user's, or has contents of another form."""
    members = find_members(item)
    role, content = members.get("role"), members.get(form.blocks_key)
    role_name = msgspec.json.decode(item[role.value : role.end]) if role else "user"  # Gemini's default
    if role_name != "user" or content is None:
        return None
    value = item[content.value : content.end]
    if value[:1] == b'"':
        return _insert(item, content.end - 1, _continue_string(words))
    if value[:1] != b"[":
        return None
    blocks = find_elements(value)
    end = content.value + (blocks[-1].end if blocks else 1)
    return _insert(item, end, (b"," if blocks else b"") + form.encode_text_block(words))


def _insert(text: bytes, place: int, insertion: bytes) -> bytes:
    return text[:place] + insertion + text[place:]


def _continue_string(words: str) -> bytes:
    """The words as the rest of a JSON string."""
    return _encode(f"\n\n{words}")[1:-1]
