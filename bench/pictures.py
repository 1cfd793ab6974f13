"""Make the pictures of the README with the product itself.

    python3 bench/pictures.py [--out docs/pictures] [--show]

The app runs on a screen that nobody sees, with real keys, real tools and a model that speaks from a script (see
pictures_story.py); what stands on its screen is written as SVG. The page is what `tidegate view` writes of the same
session, looked at in a headless Chromium. The tour of `tidegate demo`, the run of `tidegate wrap`, the page of the
gateway and the report of the lab are made by the commands, too (pictures_gateway.py, pictures_page.py). `--show`
prints the screens of the app as text and makes nothing.
"""

import argparse
import asyncio
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, chdir, contextmanager
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from pictures_gateway import photograph_gateway, run_wrap
from pictures_page import picture_of_lab, picture_of_page
from pictures_story import CONFIG, SESSION, Clock, Model, Turn, make_project, story
from rich.color import Color
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import Static

from tidegate import DataFolder
from tidegate.agent.config.files import locate_config_files
from tidegate.agent.config.launch import LaunchOptions
from tidegate.tui.app import ChatApp
from tidegate.tui.composer.draft import MessageDraft
from tidegate.tui.screens.context_pane import ContextPane
from tidegate.tui.themes import DARK_THEME

CHAT = (100, 48)
PANE = (100, 28)
TIMELINE = (100, 18)
PRINTED = 90
PROJECT = "shop"
LOOKS = 100
SHAPE = 0.6
"""The width of a sign to its height: nearly that of every monospaced font."""
SIGN = 20
"""The height of a sign in the pictures, as rich draws them."""
BAR = re.compile(
    r'<text class="(?P<style>[\w-]+)" x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)"[^>]*>(?P<bar>█+)(&#160;)*</text>'
)
# No font is fetched. Each run of text is stretched to its cells, so that bars and lines have no gaps in any font.
FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; white-space: pre; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 16px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Screen(NamedTuple):
    name: str
    text: str
    svg: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="docs/pictures")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    out = Path(options.out).resolve()
    with somewhere() as folder:
        screens = asyncio.run(play_story(folder))
        if options.show:
            for screen in screens:
                print(f"=== {screen.name}\n{screen.text}")
            return 0
        out.mkdir(parents=True, exist_ok=True)
        for screen in screens:
            report(out / f"{screen.name}.svg", screen.svg.encode())
        report(out / "demo.svg", draw_text(run_demo(), "tidegate demo").encode())
        report(out / "wrap.svg", draw_text(run_wrap(folder), "tidegate wrap claude").encode())
        report(out / "view.png", picture_of_page(folder / "data", SESSION, folder / "view.html"))
        report(out / "gateway.png", photograph_gateway(folder))
        report(out / "lab.png", picture_of_lab(folder))
    return 0


def run_demo() -> str:
    """What the tour shows of its first sweep and of its end; three dots stand for what is between them."""
    command = [sys.executable, "-m", "tidegate.cli.main", "demo", "--fast"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [line for line in output.splitlines() if not line.startswith("Policy ")]
    first = next(place for place, line in enumerate(lines) if "what stayed:" in line) + 1
    last = next(place for place, line in enumerate(lines) if "the agent: All places" in line)
    end = [line for line in lines[last:] if "note_sweep: " not in line]
    excerpt = [*lines[:first], "", "   ...", "", *end]
    wrapped = (fill(line, PRINTED, subsequent_indent=" " * 10) if line else "" for line in excerpt)
    return "$ tidegate demo\n" + "\n".join(wrapped)


def report(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    print(f"{path.name}: {len(data):,} bytes")


@contextmanager
def somewhere() -> Iterator[Path]:
    """A folder that is gone afterwards, with a user's configuration. The time zone is fixed: times are shown."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        os.environ |= {"TZ": "UTC", "XDG_CONFIG_HOME": name}
        os.environ.pop("NO_COLOR", None)
        time.tzset()
        config = Path(name, "tidegate", "tidegate.yaml")
        config.parent.mkdir()
        config.write_text(CONFIG, "utf-8")
        yield Path(name)


# --- the app ----------------------------------------------------------------------------------------------------------


async def play_story(folder: Path) -> list[Screen]:
    clock, turns = Clock(), story()
    provider = Model(clock, turns)
    async with open_stage(folder, clock, provider) as (app, pilot):
        for turn in turns:
            clock.now += 45
            await type_turn(app, pilot, turn, provider)
        chat = take_screen(app, "chat", "tidegate chat")
        await pilot.resize_terminal(*PANE)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, ContextPane) and app.screen.figures is not None, "F2")
        await choose_line(app, pilot, "stands for")
        context = take_screen(app, "context", "tidegate chat: F2")
        await pilot.resize_terminal(*TIMELINE)
        await pilot.press("tab", "end")
        await pilot.pause()
        return [chat, context, take_screen(app, "timeline", "tidegate chat: F2, tab")]


async def type_turn(app: ChatApp, pilot: Pilot[int], turn: Turn, provider: Model) -> None:
    """A turn, or a command, to its end."""
    all_said = len(provider.requests) + len(turn.answers)
    app.composer.replace_text(MessageDraft(turn.user))
    await pilot.press("enter")
    await until(pilot, lambda: len(provider.requests) == all_said, turn.user)
    if turn.user.startswith("/"):
        await until(pilot, lambda: "takes it back" in text_of(app), turn.user)
    await idle(app, pilot)


async def choose_line(app: ChatApp, pilot: Pilot[int], why: str) -> None:
    """Down to the line whose reason has these words."""
    for _ in range(LOOKS):
        await pilot.press("down")
        if why in str(app.screen.query_one("#about", Static).content):
            return
    raise SystemExit(f"no line has {why}\n{text_of(app)}")


@asynccontextmanager
async def open_stage(folder: Path, clock: Clock, provider: Model) -> AsyncIterator[tuple[ChatApp, Pilot[int]]]:
    """The workspace is named without its place: the prompt tells it to the model, and it would differ each time."""
    workspace = Path(PROJECT)
    workspace.mkdir()
    make_project(workspace)
    environment = {"XDG_CONFIG_HOME": str(folder)}
    files = locate_config_files(workspace, environment)
    data = DataFolder(folder / "data", secrets=[], clock=clock)
    app = ChatApp(
        data, LaunchOptions(files, environment, session_name=SESSION), workspace, provider_for=lambda _: provider
    )
    try:
        async with app.run_test(size=CHAT) as pilot:
            app.composer.cursor_blink = False
            await idle(app, pilot)
            yield app, pilot
    finally:
        app.agent_thread.close()
        data.close()


async def idle(app: ChatApp, pilot: Pilot[int]) -> None:
    await until(
        pilot,
        lambda: app.agent_ready and not app.turn_state.is_busy and app.status.figures.cost_is_complete,
        "the agent rests",
    )
    await pilot.pause()


async def until(pilot: Pilot[int], holds: Callable[[], bool], what: str) -> None:
    for look in range(LOOKS):
        if holds():
            return
        await pilot.pause(min(0.1, 0.005 * 1.25**look))
    raise SystemExit(f"it never came: {what}\n{text_of(pilot.app)}")


def text_of(app: object) -> str:
    assert isinstance(app, ChatApp)
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


def take_screen(app: ChatApp, name: str, title: str) -> Screen:
    width, height = app.size
    console = Console(
        width=width, height=height, file=io.StringIO(), force_terminal=True, color_system="truecolor", record=True
    )
    console.print(app.screen._compositor.render_update(full=True, screen_stack=app._background_screens, simplify=True))
    svg = console.export_svg(title=title, theme=ground(app), code_format=FORMAT, font_aspect_ratio=SHAPE, unique_id="t")
    return Screen(name, text_of(app), whole(svg))


def draw_text(text: str, title: str) -> str:
    """Printed lines as a picture of a terminal in the colours of the app."""
    lines = text.rstrip("\n").split("\n")
    console = Console(width=PRINTED, height=len(lines), file=io.StringIO(), force_terminal=True, record=True)
    console.print(Text(text.rstrip("\n")))
    palette = [DARK_THEME.panel or "#222833", DARK_THEME.foreground or "#d6dae0"]
    back, front = (Color.parse(each).get_truecolor() for each in palette)
    theme = TerminalTheme(back, front, [back] * 8, None)
    return whole(
        console.export_svg(title=title, theme=theme, code_format=FORMAT, font_aspect_ratio=SHAPE, unique_id="t")
    )


def whole(svg: str) -> str:
    """Bars drawn as bars: made of signs they have seams. All other text is as wide as its cells, whatever the font."""
    svg = BAR.sub(lambda found: bar(found["style"], found["x"], float(found["y"]), len(found["bar"])), svg)
    svg = svg.replace(" textLength=", ' lengthAdjust="spacingAndGlyphs" textLength=')
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def bar(style: str, x: str, y: float, cells: int) -> str:
    wide, top = f"{cells * SIGN * SHAPE:g}", f"{y - SIGN + 4:g}"
    return f'<rect class="{style}" x="{x}" y="{top}" width="{wide}" height="{SIGN - 1}" shape-rendering="crispEdges"/>'


def ground(app: ChatApp) -> TerminalTheme:
    """The frame in the colours of the app."""
    back, front = (Color.parse(app.theme_variables[name]).get_truecolor() for name in ("panel", "foreground"))
    return TerminalTheme(back, front, [back] * 8, None)


if __name__ == "__main__":
    raise SystemExit(main())
