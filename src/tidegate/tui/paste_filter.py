"""Removes escape codes from pasted text before Textual's parser sees it.

Textual's parser reads an escape inside a paste as keys, and line ends after it as enter: half of a pasted log would be
sent, or would answer a question.
"""

import os
import selectors
import sys
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from textual.driver import Driver

PASTE_START: Final = "\x1b[200~"
PASTE_END: Final = "\x1b[201~"
_POLL_SECONDS: Final = 0.1


class PasteFilter:
    """Filters the input of a terminal, in pieces of any length. Outside of pastes nothing is changed or held back."""

    def __init__(self) -> None:
        self._in_paste = False
        self._typed_tail = ""
        self._possible_end = ""

    def __call__(self, data: str) -> str:
        messages = list[str]()
        while data:
            data = self._strip_pasted(data, messages) if self._in_paste else self._pass_typed(data, messages)
        return "".join(messages)

    def _pass_typed(self, data: str, output: list[str]) -> str:
        """Return the text up to the start mark of a paste. The mark may have begun in the piece before."""
        whole = self._typed_tail + data
        place = whole.find(PASTE_START)
        cut = len(data) if place < 0 else place + len(PASTE_START) - len(self._typed_tail)
        self._in_paste = place >= 0
        self._typed_tail = "" if self._in_paste else whole[-len(PASTE_START) + 1 :]
        output.append(data[:cut])
        return data[cut:]

    def _strip_pasted(self, data: str, output: list[str]) -> str:
        """Return the pasted text up to its end mark. The beginning of a possible mark is held back until the next
        piece."""
        text, end, rest = (self._possible_end + data).partition(PASTE_END)
        self._possible_end = ""
        if not end:
            part = next((size for size in range(len(PASTE_END) - 1, 0, -1) if text.endswith(PASTE_END[:size])), 0)
            text, self._possible_end = text[: len(text) - part], text[len(text) - part :]
        # One character begins a sequence as well as two: what shows pasted text takes it out whole.
        output += [text.replace("\x1b[", "\x9b").replace("\x1b", ""), end]
        self._in_paste = not end
        return rest


def make_driver_class() -> "type[Driver] | None":
    """Return a Textual driver with this filter, or None where Textual's own driver has no such problem."""
    if sys.platform == "win32":
        return None
    from textual._xterm_parser import XTermParser
    from textual.drivers.linux_driver import LinuxDriver

    class PastingDriver(LinuxDriver):
        def run_input_thread(self) -> None:
            parser, pastes = XTermParser(self._debug), PasteFilter()
            decode = getincrementaldecoder("utf-8")("replace").decode
            with selectors.SelectSelector() as selector:
                selector.register(self.fileno, selectors.EVENT_READ)
                while not self.exit_event.is_set():
                    if selector.select(_POLL_SECONDS):
                        raw = os.read(self.fileno, 4096)
                        if not raw:  # nobody is there any more
                            self.exit_event.wait(_POLL_SECONDS)
                        data = pastes(decode(raw))
                        for event in parser.feed(data) if data else ():
                            self.process_message(event)
                    for event in parser.tick():
                        self.process_message(event)

    return PastingDriver
