"""The main screens, word for word, as they were when someone looked at them and found them good.

`TIDEGATE_SCREENS=write` writes them anew: look at the difference before you keep it. Figures that depend on the machine
(the hour in its time zone, the length of a path in the prompt) are shown as nines. The clocks stand still.
"""

import os
import re
from pathlib import Path

import pytest

from tests.tui.stage import Stage, on_stage, played
from tidegate.core.messages import Call
from tidegate.core.usage import Usage
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider
from tidegate.tui.screens.context_pane import TextScreen

KEPT = Path(__file__).parent / "screens"
ANSWER = """\
## Why the build is slow

The **link step** takes most of it. Cheapest first:

1. `lld` instead of `ld`: *one line*
2. split the debug info

```toml
[build]
linker = "lld"
```

| step | before | after |
|---|---|---|
| link | 97 s | 12 s |
"""
LOOK = ScriptedAnswer(
    thinking="The user wants to know why. I look first.",
    text="I look at the build files.",
    calls=(Call("c1", "list", '{"path": "."}'), Call("c2", "grep", '{"pattern": "linker"}')),
    usage=Usage(900, 60, 0, 0),
)
NOON = 1_794_700_000.0
ASK = ScriptedAnswer(calls=(Call("c3", "shell", '{"command": "git status --short"}'),), usage=Usage(1_100, 20, 900, 0))


SUMMARY = "## Goal\nA faster build.\n## Done\nThe link step takes 97 s; lld would take 12 s.\n## Next steps\nNone.\n"


def plain(line: str) -> str:
    line = re.sub(r"█+(?=█|·)|(?<=█)·+|·{9,}", "█", line)
    line = re.sub(r"(?<=turns \()\S+(?=\))", "RULE", re.sub(r" {2,}(?=[\d$])", "  ", line))
    return re.sub(r"\d[\d,.]*[kM]?", "9", line)


def figures(lines: list[str], whole: bool) -> str:
    return "\n".join([*(plain(line) if whole else line for line in lines[:-1]), plain(lines[-1])]) + "\n"


def check(stage: Stage, name: str, *, whole: bool = False, still: str = "") -> None:
    """`whole`: figures on all of the screen are shown as nines. `still`: a line that moves is left out."""
    lines = [line for line in stage.lines() if not still or still not in line]
    shown, path = figures(lines, whole), KEPT / f"{name}.txt"
    if os.environ.get("TIDEGATE_SCREENS") == "write":
        KEPT.mkdir(exist_ok=True)
        path.write_text(shown, "utf-8")
    assert shown == path.read_text("utf-8")


async def question_and_compaction(stage: Stage, at: str) -> None:
    await stage.press("escape")
    await stage.say("Is it committed?")
    await stage.sees("May shell run?")
    check(stage, f"question-{at}", still="working")
    await stage.press("escape")
    await stage.sees("Clean.")
    await stage.idle()
    await stage.say("/compact")
    await stage.sees("takes it back")
    check(stage, f"compacted-{at}", whole=True)
    await stage.press("f2", "tab")
    await stage.sees("why:")
    check(stage, f"timeline-{at}", whole=True)
    await stage.press("enter")
    await stage.until(lambda: isinstance(stage.app.screen, TextScreen))
    check(stage, f"reading-{at}", whole=True)
    await stage.press("escape", "escape", "f1")
    await stage.sees("search the earlier inputs")
    check(stage, f"help-{at}", whole=True)
    await stage.press("f4")
    await stage.sees("openai/NAME")
    check(stage, f"models-{at}", whole=True)


def check_main_screens(size: tuple[int, int], folder: Path) -> None:
    at = f"{size[0]}x{size[1]}"

    async def play() -> None:
        provider = ScriptedProvider(
            "anthropic", [LOOK, ScriptedAnswer(text=ANSWER, usage=Usage(1_000, 200, 800, 0)), ASK, "Clean.", SUMMARY]
        )
        async with on_stage(folder, provider, size=size, clock=lambda: 0.0, wall_clock=lambda: NOON) as stage:
            (folder / "work" / "Cargo.toml").write_text("[package]\nlinker = 'ld'\n")
            check(stage, f"empty-{at}")
            await stage.say("Why is the build slow? Look at the files and tell me what to change first, please.")
            await stage.sees("12 s")
            await stage.idle()
            check(stage, f"answer-{at}")
            await stage.press("ctrl+home", "ctrl+o")
            check(stage, f"cards-{at}")
            await stage.press("ctrl+o", "ctrl+end", "f2")
            await stage.sees("next compaction:")
            check(stage, f"context-{at}", whole=True)
            await stage.press("escape")
            await stage.type("/re")
            await stage.sees("/resume")
            check(stage, f"menu-{at}")
            await stage.press("escape", "ctrl+c", "f3")
            await stage.sees("(here)")
            check(stage, f"sessions-{at}", whole=True)
            await question_and_compaction(stage, at)

    played(play)


def test_the_main_screens(tmp_path: Path) -> None:
    check_main_screens((80, 24), tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [(60, 18), (120, 36), (140, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_main_screens_of_other_sizes(size: tuple[int, int], tmp_path: Path) -> None:
    check_main_screens(size, tmp_path)
