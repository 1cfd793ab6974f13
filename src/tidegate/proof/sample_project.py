"""The made-up project of a generated session: its files are read, searched, tested and edited.

It has a state, so that a file read again shows an earlier edit, and names return long after they were first seen: that
makes forgetting costly, as in real sessions.
"""

import base64
import json
import random
import struct
import zlib
from typing import NamedTuple

_NOUNS = "order invoice ledger basket tariff parcel refund coupon courier depot quota receipt session voucher".split()
_VERBS = "load merge split price route settle check store rank purge expire resolve".split()
_FOLDERS = "billing shipping catalog accounts gateway reports".split()
_TYPES = "int str float bool bytes Decimal datetime".split()
_LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARNING", "ERROR")
_GLYPHS = "注文配送領収書在庫料金確認失敗成功追加変更削除検索結果顧客住所电话订单发货退款查询更新测试错误完成"


class FailingTest(NamedTuple):
    """A failing test, and the place of the code that it blames."""

    test_id: str
    path: str
    function_name: str
    line: int


class SampleProject:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.files: dict[str, list[str]] = {}
        self.names: dict[str, list[str]] = {}
        for room in _FOLDERS:
            for noun in rng.sample(_NOUNS, 4):
                self._write_file(f"src/{room}/{noun}.py", noun)

    def _write_file(self, path: str, noun: str) -> None:
        lines = ["from decimal import Decimal", "from datetime import datetime", ""]
        names = []
        for verb in self._rng.sample(_VERBS, self._rng.randint(5, 9)):
            name = f"{verb}_{noun}"
            names.append(name)
            lines += self._write_function(name)
        self.files[path] = lines
        self.names[path] = names

    def _write_function(self, name: str) -> list[str]:
        rng = self._rng
        first, second = rng.sample(_NOUNS, 2)
        lines = [f"def {name}({first}: {rng.choice(_TYPES)}, {second}: {rng.choice(_TYPES)}) -> {rng.choice(_TYPES)}:"]
        lines.append(f'    """{name.replace("_", " ").capitalize()} for one {first}; limit {rng.randint(10, 9999)}."""')
        for _ in range(rng.randint(3, 14)):
            noun = rng.choice(_NOUNS)
            lines.append(
                rng.choice(
                    (
                        f"    {noun} = lookup_{noun}({first}, retries={rng.randint(1, 9)})",
                        f"    if {noun}_total > Decimal('{rng.randint(1, 99999) / 100}'):",
                        f"        raise ValueError(f'{noun} {{{first}}} is over its limit')",
                        f"    {second} = {second} or DEFAULT_{noun.upper()}  # ticket {rng.randint(1000, 9999)}",
                        f"    log.debug('{name}: %s', {noun})",
                    )
                )
            )
        return [*lines, f"    return {second}", ""]

    def pick_path(self) -> str:
        return self._rng.choice(sorted(self.files))

    def read_file(self, path: str) -> str:
        """Return a file with numbered lines, as a read tool does."""
        return "\n".join(f"{number:5}  {line}" for number, line in enumerate(self.files[path], 1))

    def search(self, word: str) -> str:
        hits = [
            f"{path}:{number}:{line}"
            for path, lines in self.files.items()
            for number, line in enumerate(lines, 1)
            if word in line
        ]
        return "\n".join(hits) or "no match"

    def list_files(self) -> str:
        """Return a JSON array of files, as a listing tool does."""
        rows = [
            {"path": path, "lines": len(lines), "sha": f"{self._rng.getrandbits(64):016x}", "names": self.names[path]}
            for path, lines in self.files.items()
        ]
        return json.dumps(rows, indent=1)

    def pick_failure(self) -> FailingTest:
        path = self.pick_path()
        name = self._rng.choice(self.names[path])
        room, file = path.removeprefix("src/").split("/")
        test = f"tests/{room}/test_{file}::test_{name}_{self._rng.choice(('empty', 'limit', 'twice', 'unicode'))}"
        return FailingTest(test, path, name, self._line_of(path, name))

    def _line_of(self, path: str, name: str) -> int:
        return next(number for number, line in enumerate(self.files[path], 1) if f"def {name}(" in line)

    def run_tests(self, failure: FailingTest | None) -> str:
        rng = self._rng
        lines = [f"tests/{path.removeprefix('src/')} {'.' * rng.randint(4, 40)} [100%]" for path in self.files]
        if failure is None:
            return "\n".join([*lines, f"===== {rng.randint(180, 240)} passed in {rng.uniform(2, 9):.2f}s ====="])
        source = self.files[failure.path][failure.line - 1 : failure.line + 6]
        lines += ["=" * 30 + " FAILURES " + "=" * 30, failure.test_id, *(f">   {line}" for line in source)]
        lines += [f"E   AssertionError: expected {rng.randint(1, 99)}, got {rng.randint(100, 999)}"]
        lines += [f"{failure.path}:{failure.line + 3}: AssertionError", f"FAILED {failure.test_id}"]
        return "\n".join([*lines, f"===== 1 failed, {rng.randint(180, 240)} passed in {rng.uniform(2, 9):.2f}s ====="])

    def edit_file(self, failure: FailingTest) -> dict[str, str]:
        """Edit a file and return the arguments of the edit call."""
        place = self._line_of(failure.path, failure.function_name) + 1
        old = self.files[failure.path][place]
        new = f"    if not {self._rng.choice(_NOUNS)}: return None  # was: {old.strip()[:40]}"
        self.files[failure.path][place] = new
        return {"path": failure.path, "old": old, "new": new}

    def write_log(self) -> str:
        rng = self._rng
        at = rng.randint(0, 80000)
        lines = []
        for _ in range(rng.randint(20, 90)):
            at += rng.randint(0, 40)
            clock = f"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}"
            where = f"{rng.choice(_FOLDERS)}.{rng.choice(_NOUNS)}"
            lines.append(
                f"{clock} {rng.choice(_LEVELS):7} {where} request={rng.getrandbits(48):012x} took={at % 997}ms"
            )
        return "\n".join(lines)

    def write_foreign_text(self, length: int) -> str:
        """Return text in a script in which a character is about a token: the worst case for `characters / 4`."""
        return "".join(self._rng.choice(_GLYPHS) + ("。" if place % 17 == 16 else "") for place in range(length))

    def make_screenshot(self) -> str:
        """Return a data URL of a real PNG in one color: its cost depends on its pixels, not on its bytes."""
        width, height = self._rng.choice(((640, 480), (800, 600), (1280, 720)))
        row = b"\0" + bytes(self._rng.randrange(256) for _ in range(3)) * width
        chunks = (
            b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0),
            b"IDAT" + zlib.compress(row * height, 9),
        )
        body = b"".join(
            struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
            for chunk in (*chunks, b"IEND")
        )
        return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
