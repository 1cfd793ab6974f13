"""What goes on right now: is a turn under way, what is being said, what waits to be sent. No screen, no session."""

from tidegate.agent.hooks import Done
from tidegate.agent.loop import Refused, Stopped
from tidegate.agent.open import Notice
from tidegate.apps.chat.backstage import Happened, Logged, News, Over
from tidegate.apps.chat.blocks import Block
from tidegate.apps.chat.draft import Draft
from tidegate.core.events import Said
from tidegate.models.provider import Delta, Reply

_WHY = {
    "steps": "The turn ended after its last allowed step; say something to go on.",
    "refused": "The model refused to answer.",
    "filtered": "The provider filtered the answer.",
    "length": "The answer was cut at its longest.",
    "empty": "The model answered with nothing.",
}


class Talk:
    """`saying` is what is shown behind the log, `remarks` what belongs to no log: notices, problems, answers."""

    def __init__(self) -> None:
        self.busy = False
        self.saying: list[Block] = []
        self.remarks: list[Block] = []
        self.queue: list[Draft] = []
        self._count = 0

    def fresh(self) -> list[Block]:
        """The remarks that were not asked for yet."""
        remarks, self.remarks = self.remarks, []
        return remarks

    def begin(self) -> None:
        self.busy = True

    def remark(self, text: str, *, problem: bool = False) -> None:
        self._count += 1
        self.remarks.append(Block(f"r{self._count}", "problem" if problem else "note", text))

    def answer(self, line: str, text: str, *, error: bool = False) -> str:
        """What a command said: no part of the conversation. The key of its block."""
        self._count += 1
        self.remarks.append(Block(f"r{self._count}", "problem" if error else "answer", text, line))
        return self.remarks[-1].key

    def take(self, news: News) -> None:
        if isinstance(news, Logged):
            if isinstance(news.event.what, Said) and news.event.what.message.role == "assistant":
                self.saying = []
        elif isinstance(news, Happened):
            self._happened(news)
        elif isinstance(news, Over):
            self.busy, self.saying = False, []
            if news.problem:
                self.remark(news.problem, problem=True)
            elif news.interrupted:
                self.remark("Interrupted. What was said so far is kept.")

    def _happened(self, news: Happened) -> None:
        match news.what:
            case Delta(kind="text", text=text):
                self._grow("said", text)
            case Delta(kind="thinking", text=text):
                self._grow("thinking", text)
            case Reply():
                self.saying = []
            case Refused(fault):
                self.saying = []
                self.remark(f"The provider refused the request ({fault.kind}); it is sent again, changed.")
            case Stopped(why) if why in _WHY:
                self.remark(_WHY[why])
            case Notice(text):
                self.remark(text)
            case Done(hook, action, text, error) if error or action == "log":
                self.remark(f"hook {hook}: {text}", problem=bool(error))

    def _grow(self, kind: str, text: str) -> None:
        if not self.saying or self.saying[-1].kind != kind:
            self._count += 1
            self.saying.append(Block(f"l{self._count}", "thinking" if kind == "thinking" else "said"))
        self.saying[-1].text += text
