"""Shortening of a message to some of its lines. The lines are verbatim, and a pointer names the id to recall."""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Final

from tidegate.core.messages import Image, Message, Part, Result, Text, common_mark, mark_text, result_of, text_of
from tidegate.core.recognition.client_outputs import DIALOG_FRAME
from tidegate.core.sweep.key_lines import GAP_MARK, clip_line, find_diff_lines, is_marker
from tidegate.core.text.clip import clip_chars
from tidegate.core.text.facts import find_rule_sentences, is_refusal
from tidegate.core.text.lazy_pattern import LazyPattern

_LINES_NOTICE: Final = LazyPattern(
    r"\[(?:\d+ of )?([\d,]+) lines; recall |RESULT TRUNCATED: showing [\d,]+ of ([\d,]+) lines"
)
IMAGE_PLACEHOLDER: Final = "[image left out]"
_CUT_NOTICE: Final = LazyPattern(r"\[\.\.\. [\d,]+ characters, ([\d,]+) lines left out")
_TAG: Final = LazyPattern(r"<(/?)([A-Za-z][\w-]{0,59})>")
_DEEPEST_TAG: Final = 20
_RULES_READ_CHARS: Final = 200_000
_SHORT_RESULT: Final = 700  # characters: a result up to this length stays whole if its call stays
_LONGEST_REFUSAL: Final = 2_000
_LEAST_SAVING: Final = 120  # characters: with less left out, the mark would cost as much
_LEAST_SHARE: Final = 0.1  # of a result: with less left out, it stays whole, because a cut invites to recall it
_LEAST_MESSAGE_SHARE: Final = 0.2  # the same of a message
_GAP_LINES: Final = 2  # a gap of so many lines, with so many characters, is filled
_GAP_CHARS: Final = 3


def clip_message(message: Message, chars: int) -> tuple[Part, ...]:
    """About `chars` characters of a message and a recall pointer: its beginning, and later sentences with a rule.

    Tags that the beginning leaves open are closed before anything that was not inside them: neither the pointer nor
    words of the user may look like a part of what a client put in. A sentence from inside stays inside.
    A line takes the place of each image: a message may have nothing else, and providers refuse an empty text.
    """
    text, mark = text_of(message), common_mark(message.parts)
    images = [IMAGE_PLACEHOLDER for part in message.parts if isinstance(part, Image)]
    if len(text) <= chars:
        return (mark_text("\n".join([*filter(None, [text]), *images]), mark),)
    rules: list[str] = []
    left = chars // 2
    for rule in find_rule_sentences(text[left:], _RULES_READ_CHARS):
        left -= len(rule) + 1
        if left < 0:
            break
        rules.append(rule)
    head = _clip_head(text, chars - sum(len(rule) + 1 for rule in rules))
    later = [rule for rule in dict.fromkeys(rules) if rule not in head]
    closing = _close_tags(head, text[len(head) :])
    end = text.rfind(closing[-1]) if closing else len(head)  # the last: a file inside may have the tag as well
    inside = [rule for rule in later if text.find(rule, len(head)) < end]
    outside = later[len(inside) :]
    lines = [
        *([head, GAP_MARK, *inside] if inside else [head]),
        *closing,
        *([GAP_MARK, *outside] if outside else []),
        f"[first {len(head):,} of {len(text):,} characters; recall {message.id} has all of it]",
        *images,
    ]
    clipped = "\n".join(lines)
    return (mark_text(clipped, mark),) if len(clipped) <= (1 - _LEAST_MESSAGE_SHARE) * len(text) else message.parts


def _close_tags(head: str, rest: str) -> list[str]:
    """The closing tags that the beginning of a text lacks, if the rest has them."""
    opened: list[str] = []
    for closes, name in _TAG.findall(head):
        if not closes and len(opened) < _DEEPEST_TAG:
            opened.append(name)
        elif closes and name in opened:
            del opened[len(opened) - 1 - opened[::-1].index(name) :]
    closing = {name for closes, name in _TAG.findall(rest) if closes}
    return [f"</{name}>" for name in reversed(opened) if name in closing]


def _clip_head(text: str, chars: int) -> str:
    """The beginning of a text up to the end of a line, or else of a word, if one is near."""
    head = clip_chars(text, chars, mode="head", notice="").text
    line_end, word_end = head.rfind("\n"), head.rfind(" ")
    at = line_end if line_end > len(head) // 2 else word_end if word_end > len(head) // 2 else len(head)
    return head[:at].rstrip()


def make_block_pointer(message: Message, tag: str) -> tuple[Part, ...]:
    """What stays of a block with this tag that a later one replaced."""
    text = f"<{tag}>\n[replaced by a later one; recall {message.id} has all of it]\n</{tag}>"
    return (mark_text(text, common_mark(message.parts)),)


def stays_whole(message: Message) -> bool:
    """Whether a result stays whole if its call stays: a stub of it would save next to nothing, or say the opposite."""
    text = text_of(message)
    is_said = len(text) <= _LONGEST_REFUSAL and (is_refusal(text) or DIALOG_FRAME.match(text) is not None)
    return is_said or len(text) <= _SHORT_RESULT


def shorten_result(message: Message, places: Collection[int]) -> tuple[Part, ...]:
    """A result with the lines at these places only. The first line says how many of how many, and how to recall it."""
    result = result_of(message)
    if result is None:
        return message.parts
    texts = text_of(message).split("\n")
    before = next((match for line in texts if (match := _LINES_NOTICE.match(line))), None)
    own = [place for place, line in enumerate(texts) if not is_marker(line)]
    visible = [place for place in _add_file_names(places, texts) if not is_marker(texts[place])]
    size = sum(len(texts[place]) + 1 for place in own)
    omitted = size - sum(len(clip_line(texts[place])) + 1 for place in visible)
    if omitted <= _LEAST_SHARE * size or (before is None and omitted <= _LEAST_SAVING):
        return message.parts
    lines: list[str] = []
    last = -1
    for place in _close_gaps(visible, texts):
        if lines and place > last + 1:
            lines.append(GAP_MARK)
        lines.append(clip_line(texts[place]))
        last = place
    if lines and any(map(str.strip, texts[: visible[0]])) and not _is_notice_only(texts[: visible[0]]):
        lines.insert(0, GAP_MARK)
    if lines and any(map(str.strip, texts[visible[-1] + 1 :])):
        lines.append(GAP_MARK)
    filled_count = sum(bool(texts[place].strip()) for place in own)
    if before is None and filled_count == len(visible) == 1 and clip_line(texts[visible[0]]) != texts[visible[0]]:
        count = f"first {len(clip_line(texts[visible[0]])) - len(GAP_MARK):,} of {len(texts[visible[0]]):,} characters"
    else:
        all_lines = (before[1] or before[2]) if before else f"{_count_lines(texts):,}"
        shown_count = len(lines) - lines.count(GAP_MARK)
        count = f"{shown_count} of {all_lines} lines" if shown_count else f"{all_lines} lines"
    notice = f"[{count}; recall {message.id} has all of it]"
    return (Result(result.call_id, (Text("\n".join([notice, *lines])),), result.error),)


def _is_notice_only(texts: Sequence[str]) -> bool:
    """Whether these lines are only what this program wrote where it shortened the text, and no mark of a gap."""
    return all(not text.strip() or (is_marker(text) and text != GAP_MARK) for text in texts)


def _count_lines(texts: Sequence[str]) -> int:
    """The lines that a text had before an earlier stage cut it."""
    cut = sum(int(match[1].replace(",", "")) - 1 for line in texts if (match := _CUT_NOTICE.match(line)))
    return sum(not is_marker(line) for line in texts) + cut


def _add_file_names(places: Collection[int], texts: Sequence[str]) -> list[int]:
    """The places, in order, and in a diff those of the lines that name their files."""
    files = find_diff_lines(texts).files
    before = (bisect_right(files, place) - 1 for place in places)
    return sorted({*places, *(files[number] for number in before if number >= 0)})


def _close_gaps(places: Sequence[int], texts: Sequence[str]) -> list[int]:
    """The places, with gaps of next to nothing between them filled: a mark would cost as much."""
    gaps: list[int] = []
    for place in places:
        gap = range(gaps[-1] + 1, place) if gaps else range(0)
        if gap and len(gap) <= _GAP_LINES and sum(len(texts[each].strip()) for each in gap) <= _GAP_CHARS:
            gaps += (each for each in gap if not is_marker(texts[each]))
        gaps.append(place)
    return gaps
