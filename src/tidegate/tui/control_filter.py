"""The last check before the terminal in the full-screen app: no control character that a widget draws passes."""

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from tidegate.core.text.terminal_text import strip_controls


class ControlFilter(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.control or segment.text.isprintable()
            else Segment(" ".join(strip_controls(segment.text).replace("\t", " ").split("\n")), segment.style)
            for segment in segments
        ]
