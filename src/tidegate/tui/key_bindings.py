"""The key bindings of the conversation, and their help text."""

from typing import Final

from textual.binding import Binding, BindingType

CHAT_BINDINGS: Final[tuple[BindingType, ...]] = (
    Binding("ctrl+c", "stop", "Stop", priority=True, show=False),
    Binding("ctrl+q", "quit", "Quit", priority=True, show=False),
    Binding("escape", "interrupt", "Interrupt", show=False),
    Binding("1", "approve('1')", "First answer", priority=True, show=False),
    Binding("2", "approve('2')", "Second answer", priority=True, show=False),
    Binding("3", "approve('3')", "Third answer", priority=True, show=False),
    Binding("escape", "approve('escape')", "Deny", priority=True, show=False),
    Binding("ctrl+o", "cards", "Cards", priority=True, show=False),
    Binding("ctrl+up", "card(-1)", "Card above", priority=True, show=False),
    Binding("ctrl+down", "card(1)", "Card below", priority=True, show=False),
    Binding("pageup", "page(-1)", "Page up", priority=True, show=False),
    Binding("pagedown", "page(1)", "Page down", priority=True, show=False),
    Binding("ctrl+home", "start", "Beginning", priority=True, show=False),
    Binding("ctrl+end", "end", "End", priority=True, show=False),
    Binding("ctrl+r", "history", "Earlier inputs", priority=True, show=False),
    Binding("f1", "help", "Help", priority=True, show=False),
    Binding("f2", "context", "Context", priority=True, show=False),
    Binding("f3", "sessions", "Sessions", priority=True, show=False),
    Binding("f4", "models", "Models", priority=True, show=False),
    Binding("f5", "theme", "Light or dark", priority=True, show=False),
)
CONVERSATION_ACTIONS: Final = frozenset(
    "stop interrupt approve cards card page start end history help context sessions models".split()
)
"""Actions of the conversation itself. While another screen is on top, it has these keys."""
WELCOME_TEXT: Final = """\
Everything said here is kept, even when it no longer fits the window.
F1 shows the keys, F2 what fills the window and what left it."""
KEY_HELP: Final = """\
enter             send; while the agent works it is queued, enter again sends it now
ctrl+j            new line (also alt+enter, shift+enter, ctrl+enter)
up, down          queued messages, to edit them; then earlier inputs
ctrl+r            search the earlier inputs
tab               complete; @ offers files, / commands; after [pasted 60 lines]: show the lines
!COMMAND          run a shell command; /add puts its output into your next message
@PATH             attach a file; an image may be outside the project, or be dropped here
esc               interrupt; while a tool asks: deny
esc esc           go back to an earlier message of yours, in a copy of the session
1, 2, 3           answer a tool that asks, wherever the cursor is; your draft stays. \
If the input is empty, also up, down and enter
ctrl+o            open or close all cards, or the selected one
ctrl+up, down     select a card
pgup, pgdn        scroll; ctrl+home and ctrl+end go to the ends
F1                this help
F2                what fills the window and what was removed from it
in F2             tab, left or right: the other list; up, down: select; enter: show in full; \
r: recall; u: undo down to here; y: redo; a: refresh; esc, q or F2: close
F3                sessions
F4                models
F5                light or dark; /theme has more themes
in a list         type to search; up, down, pgup, pgdn select; enter takes, esc closes
in a long text    up, down, pgup, pgdn scroll; esc, q or enter closes
ctrl+c            copy the selected text (also super+c); else stop; twice to leave
ctrl+q            leave"""
