"""The themes, which of them the user chose, and the palette that the conversation derives from the current theme."""

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from rich.style import Style
from rich.theme import Theme as RichTheme
from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

from tidegate.core.errors import BadInput
from tidegate.datafolder.data_folder import DataFolder

DARK_THEME: Final = Theme(
    name="tide-dark",
    primary="#7aa2d6",
    secondary="#8fb8a8",
    accent="#c9a26d",
    warning="#e5b454",
    error="#e06c75",
    success="#8fbf7f",
    foreground="#d6dae0",
    background="#14171c",
    surface="#1a1e25",
    panel="#222833",
    dark=True,
    variables={"footer-key-foreground": "#7aa2d6", "input-cursor-text-style": "none", "border": "#39424f"},
)
LIGHT_THEME: Final = Theme(
    name="tide-light",
    primary="#2f5f9e",
    secondary="#3d7a66",
    accent="#8a5a12",
    warning="#9a6700",
    error="#b42331",
    success="#2f7d32",
    foreground="#24292f",
    background="#fbfbf9",
    surface="#f3f3f0",
    panel="#e9e9e4",
    dark=False,
    variables={"footer-key-foreground": "#2f5f9e", "input-cursor-text-style": "none", "border": "#c9c9c2"},
)


_PREFERENCE: Final = "theme"
_SHORT_NAMES: Final = {"dark": DARK_THEME.name, "light": LIGHT_THEME.name}


def list_theme_names() -> list[str]:
    """Return the names of all themes: our own, then those of Textual. Themes of 16 colors have no shades to blend."""
    return [DARK_THEME.name, LIGHT_THEME.name, *sorted(name for name in BUILTIN_THEMES if "ansi" not in name)]


def find_theme(name: str) -> str:
    """Return the full name of a theme. Raise BadInput if there is none."""
    full = _SHORT_NAMES.get(name, name)
    if full not in list_theme_names():
        raise BadInput(f"There is no theme {name[:80]}.", f"Choose one of {', '.join(list_theme_names())}.")
    return full


def read_saved_theme(data: DataFolder) -> str:
    """Return the theme that the user chose last, or the dark one. A project cannot change it."""
    name = (data.preferences.read(_PREFERENCE) or "").strip()
    return name if name in list_theme_names() else DARK_THEME.name


def save_theme(data: DataFolder, name: str) -> None:
    data.preferences.update(_PREFERENCE, lambda _: name)


class Palette(NamedTuple):
    """Colors as rich writes them. `added` and `removed` are backgrounds; `code` is the pygments style for code."""

    text: str
    muted: str
    faint: str
    primary: str
    accent: str
    warning: str
    error: str
    success: str
    surface: str
    panel: str
    added: str
    removed: str
    code: str


def make_palette(variables: Mapping[str, str], *, dark: bool) -> Palette:
    def find_color(name: str, otherwise: str) -> Color:
        try:
            return Color.parse(variables.get(name, otherwise)).rgb and Color.parse(variables.get(name, otherwise))
        except ColorParseError:
            return Color.parse(otherwise)

    text = find_color("foreground", "#d6dae0" if dark else "#24292f")
    ground = find_color("background", "#14171c" if dark else "#fbfbf9")
    return Palette(
        text=text.hex6,
        muted=text.blend(ground, 0.38).hex6,
        faint=text.blend(ground, 0.62).hex6,
        primary=find_color("primary", "#7aa2d6").hex6,
        accent=find_color("accent", "#c9a26d").hex6,
        warning=find_color("warning", "#e5b454").hex6,
        error=find_color("error", "#e06c75").hex6,
        success=find_color("success", "#8fbf7f").hex6,
        surface=find_color("surface", "#1a1e25").hex6,
        panel=find_color("panel", "#222833").hex6,
        added=_tint(ground, find_color("success", "#8fbf7f"), dark=dark),
        removed=_tint(ground, find_color("error", "#e06c75"), dark=dark),
        code="github-dark" if dark else "friendly",
    )


def _tint(ground: Color, color: Color, *, dark: bool) -> str:
    """Return the ground with some of the color, saturated: a pale one is gray on a terminal with 256 colors."""
    _, saturation, lightness = color.blend(ground, 0.8).hsl
    strong = max(saturation, 0.4 if dark else 0.7), max(lightness, 0.18)
    return Color.from_hsl(color.hsl.h, *strong).hex6


@cache
def make_rich_theme(palette: Palette) -> RichTheme:
    p = palette
    return RichTheme(
        {
            "markdown.code": Style.parse(f"{p.accent} on {p.surface}"),
            "markdown.code_block": Style.parse(f"on {p.surface}"),
            "markdown.block_quote": Style.parse(f"italic {p.muted}"),
            "markdown.list": Style(),
            "markdown.item.bullet": Style.parse(p.primary),
            "markdown.item.number": Style.parse(p.primary),
            "markdown.hr": Style.parse(p.faint),
            "markdown.h1": Style.parse(f"bold {p.primary}"),
            "markdown.h2": Style.parse(f"bold {p.primary}"),
            "markdown.h3": Style.parse(f"bold {p.text}"),
            "markdown.h4": Style.parse(f"bold {p.muted}"),
            "markdown.link": Style.parse(p.primary),
            "markdown.link_url": Style.parse(p.muted),
            "markdown.table.border": Style.parse(p.faint),
            "markdown.table.header": Style.parse(f"bold {p.muted}"),
        }
    )
