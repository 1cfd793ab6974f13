"""How a dialect writes answers: what reads them, encodes them and joins several to one."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tidegate.wire.rendering.blocks import JsonObject
from tidegate.wire.streaming.merged_answer import MergedAnswer
from tidegate.wire.streaming.reply import ReplyAssembler
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer


class AnswerForm(NamedTuple):
    """The answers of a dialect.

    `create_assembler` reads the frames of a stream, `frames_from_body` makes frames of an answer without streaming.
    `encode_frames` and `encode_body` write an answer for a client. `create_merger` joins several answers to one without
    the calls of a hidden tool, which it gets by name. `names_events`: each event of a stream has the type of its frame
    as its name. `end_mark` follows the last event.
    """

    create_assembler: Callable[[], ReplyAssembler]
    frames_from_body: Callable[[Mapping[str, object]], list[JsonObject]]
    encode_frames: Callable[[ScriptedAnswer], Iterator[JsonObject]]
    encode_body: Callable[[ScriptedAnswer], JsonObject]
    create_merger: Callable[[str], MergedAnswer]
    names_events: bool = False
    end_mark: bytes = b""
