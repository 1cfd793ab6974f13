"""Behind `Shown` stands the wall: whatever a widget draws, no control character in it reaches the terminal."""

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from tidegate.apps.chat.safe import HALVES, HARMFUL


class Wall(LineFilter):
    """The last look at what goes to the terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.control or segment.text.isprintable()
            else Segment(HARMFUL.sub("", HALVES.sub("\ufffd", segment.text.replace("\t", " "))), segment.style)
            for segment in segments
        ]
