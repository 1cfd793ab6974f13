"""Regular expressions that are compiled when a text needs them: compiling all of them takes longer than most commands.

`tidegate sessions` masks fifty titles, in which hardly any of the patterns for secrets has something to look for.
"""

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol


class _Search(Protocol):
    def __call__(self, string: str, pos: int = ..., endpos: int = ..., /) -> re.Match[str] | None: ...


class _SearchAll(Protocol):
    def __call__(self, string: str, pos: int = ..., endpos: int = ..., /) -> Iterator[re.Match[str]]: ...


class _ListAll(Protocol):
    def __call__(self, string: str, pos: int = ..., endpos: int = ..., /) -> list[Any]: ...


class _Split(Protocol):
    def __call__(self, string: str, maxsplit: int = ...) -> list[str | Any]: ...


class _Substitute(Protocol):
    def __call__(self, repl: str | Callable[[re.Match[str]], str], string: str, count: int = ...) -> str: ...


class LazyPattern:
    """Has the methods of the compiled pattern; after the first call, a call costs hardly more.

    A source that takes long to write is a function that returns it.
    """

    def __init__(self, source: str | Callable[[], str], flags: int = 0) -> None:
        self._source, self._flags = source, flags

    @cached_property
    def source(self) -> str:
        return self._source if isinstance(self._source, str) else self._source()

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.source, self._flags)

    @cached_property
    def search(self) -> _Search:
        return self.compiled.search

    @cached_property
    def match(self) -> _Search:
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> _Search:
        return self.compiled.fullmatch

    @cached_property
    def finditer(self) -> _SearchAll:
        return self.compiled.finditer

    @cached_property
    def findall(self) -> _ListAll:
        return self.compiled.findall

    @cached_property
    def split(self) -> _Split:
        return self.compiled.split

    @cached_property
    def sub(self) -> _Substitute:
        return self.compiled.sub
