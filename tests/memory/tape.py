"""Logs to search in, of many scripts and styles."""

from collections.abc import Callable, Iterator

from tidegate.memory.log_lines import LogLine
from tidegate.memory.search import Search

DOCS = {
    1: "The gateway listens on port 8443 behind nginx.",
    2: "def parseHTTPResponse(raw): return core.plan.run(raw, max_context_tokens=50_000)",
    3: "我们使用SQLite数据库保存会话，连接失败时重试三次。",
    4: "データベースの接続に失敗しました。",
    5: "데이터베이스를 다시 시작했습니다",
    6: "see src/tidegate/core/stages/guard.py line 42 -> guard",
    7: "Le café naïve à Zürich, Straße 9",
    8: "ฐานข้อมูลล้มเหลว แล้วลองใหม่",
    9: "port port port: the common word port again, and port",
    10: "commit 9f170541c0ffee of readFile in FooBarBaz::quxQuux",
    11: "one port in a long report of other things, none of which is of any use to whoever looks for it here",
    12: "def is_the_whole_of_it(to_be: bool): not to be",
}


class Tape:
    """Logs that remember what was asked of them."""

    def __init__(self, docs: dict[int, str] | None = None, session: str = "s") -> None:
        self.docs = DOCS if docs is None else docs
        self.session = session
        self.read: list[int] = []

    def __call__(self, head: Callable[[str], int]) -> Iterator[LogLine]:
        known = head(self.session)
        for seq, text in self.docs.items():
            if seq > known:
                self.read.append(seq)
                yield LogLine(self.session, seq, text)


def places(search: Search, query: str, limit: int = 10) -> list[int]:
    return [hit.place for hit in search.search(query, limit)]
