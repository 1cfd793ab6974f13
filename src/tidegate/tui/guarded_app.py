"""An app with a guarded terminal: pastes bring no keys, nothing drawn has control characters, no traceback is shown."""

from textual.app import App
from textual.filter import LineFilter

from tidegate.tui.control_filter import ControlFilter
from tidegate.tui.paste_filter import make_driver_class


class GuardedApp(App[int]):
    def __init__(self) -> None:
        super().__init__(driver_class=make_driver_class())
        self._control_filter = ControlFilter()

    def _fatal_error(self) -> None:
        """Close without a traceback: it would show the values of variables. The caller raises `failure`."""
        self._close_messages_no_wait()

    @property
    def failure(self) -> Exception | None:
        return self._exception

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), self._control_filter]
