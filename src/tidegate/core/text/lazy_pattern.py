"""Regular expressions that are compiled when a text needs them: compiling all of them takes longer than most commands.

`tidegate sessions` masks fifty titles, in which hardly any of the patterns for secrets has something to look for.
"""

import re
from functools import cached_property


class LazyPattern:
    def __init__(self, source: str, flags: int = 0) -> None:
        self.source, self._flags = source, flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.source, self._flags)
