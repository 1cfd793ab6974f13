"""What a shell command does: whether it only reads, and which files it changes.

A command line is split where a shell would split it: at `&&`, `;`, `|` and line ends, outside of quotes. The text of a
here-document is data, not commands. What a program does is known by its name; one that is not listed as a reader
counts as one that changes something.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from tidegate.core.text.lazy_pattern import LazyPattern

EDITED: Final = "edited"
WRITTEN: Final = "written"
CREATED: Final = "created"
DELETED: Final = "deleted"
REVERTED: Final = "reverted"
_MOVED_TO: Final = "moved to "
_MOVED_FROM: Final = "moved from "

_COMMAND_CHARS: Final = 12_000
"""Characters of a command line that are read. `bench/plan.py` shows what reading costs."""
_DEPTH: Final = 20
_COMMANDS: Final = 200

_READERS: Final = frozenset(
    "[ [[ ag awk basename bat cat cd cmp column comm cut date df diff dig dirname du echo egrep env exit export false"
    " fgrep file find Get-ChildItem Get-Content grep head help hexdump hostname id jq less local ls lsof man md5 md5sum"
    " more netstat nl od pgrep popd printenv printf ps pushd pwd read readlink realpath rg rev sed seq set sha1sum"
    " sha256sum shasum shift shopt sleep sort stat strings tac tail test top tr tree true type ulimit uname uniq unset"
    " wait wc which whoami xmllint xxd yq zcat".split()
)
_GIT_READERS: Final = frozenset(
    "blame cat-file check-ignore cherry count-objects describe diff diff-index diff-tree for-each-ref fsck grep help"
    " log ls-files ls-remote ls-tree merge-base name-rev range-diff reflog rev-list rev-parse shortlog show show-ref"
    " status symbolic-ref var verify-pack version whatchanged".split()
)
_PREPARES: Final = frozenset("> cd echo export local printf pwd set shopt sleep true wait".split())
"""Commands that say nothing of what a command line looks at."""
_GIT_LISTERS: Final = {
    "branch": LazyPattern(r"-(?:[avr]+|-list|-show-current|-all|-contains|-merged|-no-merged|-format.*|-sort.*)$"),
    "tag": LazyPattern(r"-(?:l|n\d*|-list|-contains|-sort.*|-points-at)$"),
    "remote": LazyPattern(r"(?:-v|show|get-url|--verbose)$"),
    "stash": LazyPattern(r"(?:list|show)$"),
    "worktree": LazyPattern(r"list$"),
    "notes": LazyPattern(r"(?:list|show)$"),
    "submodule": LazyPattern(r"status$"),
}
"""Commands of git that only list something with such a first argument, or (except `stash`) without any."""
_CONFIG_WRITES: Final = LazyPattern(r"--(?:unset|add|replace|rename|remove|edit)|-e$")
_GH_READER: Final = LazyPattern(r"(?:view|list|diff|checks|status|watch|search)$")
_GH_WRITES: Final = LazyPattern(r"-(?:X|f|F|-method|-field|-raw-field|-input)")
_ASKS: Final = frozenset(("--help", "-h", "--version", "-version", "help"))
_WRAPPERS: Final = frozenset(
    "! builtin command do doas elif else exec if nice nohup stdbuf sudo then time until while xargs".split()
)
_KEYWORDS: Final = frozenset("done fi esac { } in".split())
_ASSIGNMENT: Final = LazyPattern(r"[A-Za-z_]\w*\+?=")
_HERE: Final = LazyPattern(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([\w.-]+))")
_REDIRECT: Final = LazyPattern(r"(?:\d|&)?(>>?)\|?(&?)[ \t]*")
_INPUT: Final = LazyPattern(r"<<<|<")
_PLAIN: Final = LazyPattern(r"[^\s'\"\\$`&|;<>()#\d]+")
_WRITING_SCRIPT: Final = LazyPattern(
    r"""\bopen\(\s*['"]([^'"\n]{1,200})['"]\s*,\s*['"][wax]|\bPath\(\s*['"]([^'"\n]{1,200})['"]\s*\)\.write_"""
    r"""|writeFileSync\(\s*['"]([^'"\n]{1,200})['"]"""
)
"""A file that a short script writes: it is given to an interpreter as a here-document or with `-c`."""
_INTERPRETERS: Final = LazyPattern(r"(?:python|perl|ruby|node|bun|deno)[\d.]*$")
_TAKES_SCRIPT: Final = LazyPattern(
    r"(?:python|perl|ruby|node|bun|deno|bash|sh|zsh|ssh|docker|psql|sqlite3|sed|awk|jq|printf|for)[\d.]*$"
)
_SENTENCE_SPACES: Final = 3  # in an argument that is written for people: with fewer it is a pattern or a name
_NO_FILE: Final = LazyPattern(r"/dev/|/tmp/|/private/tmp/|/var/folders/|\$|-|`|&|~?$")
"""Temporary files, devices, and names that only the shell knows."""


class PathChange(NamedTuple):
    """A file and its state after a command: `edited`, `written`, `created`, `deleted`, `moved to b.py`, ..."""

    path: str
    state: str


class CommandEffect(NamedTuple):
    """`git`: the arguments of each git command, without options before the name of the command. `writers`: the programs
    that do more than read, with the command of git. `main`: the first command that does, without quoted arguments.
    `sentences`: what it writes for people, such as the text of a ticket, a pull request or a commit. `reader`: the
    name of the first command that only reads.
    """

    changes: tuple[PathChange, ...]
    git: tuple[tuple[str, ...], ...]
    writers: frozenset[str]
    main: str
    sentences: tuple[str, ...] = ()
    reader: str = ""

    @property
    def only_reads(self) -> bool:
        return not self.writers


class _SimpleCommand:
    """The words of one command, the files it redirects to (and whether it appends), and its here-documents."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.targets: list[tuple[str, bool]] = []
        self.documents: list[str] = []


@lru_cache(maxsize=2_048)
def effect_of(command: str) -> CommandEffect:
    """What a command line does."""
    folder = main = reader = ""
    writers: set[str] = set()
    changes: dict[str, PathChange] = {}
    git: list[tuple[str, ...]] = []
    sentences: list[str] = []
    for simple in _split(command[:_COMMAND_CHARS]):
        words = _strip_wrappers(simple.words)
        if words and words[0] == "cd":
            folder = _join(folder, words[1]) if len(words) > 1 else ""
        arguments = _git_arguments(words)
        if arguments:
            git.append(tuple(arguments))
        effects = [
            *(PathChange(path, EDITED if appends else WRITTEN) for path, appends in simple.targets),
            *_changes_of(words, simple.documents),
        ]
        for change in effects:
            if not _NO_FILE.match(change.path):
                path = _join(folder, change.path)
                changes.pop(path, None)
                changes[path] = PathChange(path, change.state)
        name = f"git {arguments[0]}" if arguments else words[0] if words else ">"
        if not simple.targets and _only_reads(words):
            reader = reader or ("" if name in _PREPARES else name)
        else:
            writers.add(name)
            main = main or " ".join(word for word in words if "\n" not in word and " " not in word)
            if words and not _TAKES_SCRIPT.match(words[0].rpartition("/")[2]):
                sentences += (text for text in (*words[1:], *simple.documents) if text.count(" ") >= _SENTENCE_SPACES)
    return CommandEffect(tuple(changes.values()), tuple(git), frozenset(writers), main, tuple(sentences), reader)


def only_reads(command: str) -> bool:
    """Whether a command line changes nothing, in any of its parts."""
    return effect_of(command).only_reads


def _join(folder: str, path: str) -> str:
    if not folder or path.startswith(("/", "~")):
        return path
    return f"{folder.rstrip('/')}/{path.removeprefix('./')}"


def _strip_wrappers(words: Sequence[str]) -> Sequence[str]:
    """The words without assignments, keywords and programs that run another one."""
    at = 0
    while at < len(words):
        word = words[at]
        if word in ("for", "case", "select", "function"):
            return ()
        if word in _WRAPPERS or word in _KEYWORDS or _ASSIGNMENT.match(word):
            at += 1
            while word in ("xargs", "sudo", "nice", "env") and at < len(words) and words[at].startswith("-"):
                at += 2 if words[at] in ("-n", "-I", "-P", "-L", "-u") else 1
        elif word == "timeout" and len(words) > at + 2:
            at += 2
        elif word in ("env", "mise") and len(words) > at + 1 and (_ASSIGNMENT.match(words[at + 1]) or "--" in words):
            at = words.index("--", at) + 1 if "--" in words[at:] else at + 1
        else:
            break
    return words[at:]


def _git_arguments(words: Sequence[str]) -> Sequence[str]:
    if not words or words[0].rpartition("/")[2] != "git":
        return ()
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    return words[at:]


def _only_reads(words: Sequence[str]) -> bool:
    if not words or any(word in _ASKS for word in words[1:]):
        return True
    program = words[0].rpartition("/")[2]
    if program == "git":
        name, *rest = _git_arguments(words) or ("help",)
        lists = _GIT_LISTERS.get(name)
        if name == "config":  # with a name only, or with an option that lists, it prints
            names = [word for word in rest if not word.startswith("-")]
            return len(names) < 2 and not any(_CONFIG_WRITES.match(word) for word in rest)
        if lists is not None:
            return bool(lists.match(rest[0])) if rest else name != "stash"
        return name in _GIT_READERS
    if program == "gh":
        if words[1:2] == ["api"] or words[1:2] == ("api",):
            return not any(map(_GH_WRITES.match, words))
        return any(map(_GH_READER.match, words[1:3]))
    if program == "sed":
        return not any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in words[1:])
    if program == "find":
        inner_words = next((words[at + 1 :] for at, word in enumerate(words) if word in ("-exec", "-execdir")), ())
        return not any(word in ("-delete", "-fprint", "-ok") for word in words) and _only_reads(inner_words)
    return program in _READERS


def _changes_of(words: Sequence[str], documents: Sequence[str]) -> Iterator[PathChange]:
    if not words:
        return
    program = words[0].rpartition("/")[2]
    arguments = _git_arguments(words)
    name = arguments[0] if arguments else program
    rest = arguments[1:] if arguments else words[1:]
    files = [word for word in rest if not word.startswith("-")]
    if name in ("rm", "unlink", "Remove-Item") and "--cached" not in rest:
        yield from (PathChange(path, DELETED) for path in files)
    elif name == "mv" and len(files) == 2:
        yield PathChange(files[0], f"{_MOVED_TO}{files[1]}")
        yield PathChange(files[1], f"{_MOVED_FROM}{files[0]}")
    elif name == "cp" and len(files) == 2 and not arguments:
        yield PathChange(files[1], CREATED)
    elif name == "touch":
        yield from (PathChange(path, CREATED) for path in files)
    elif name == "tee":
        yield from (PathChange(path, EDITED if "-a" in rest else WRITTEN) for path in files)
    elif (name == "sed" and not _only_reads(words)) or (name == "perl" and any(re.match(r"-\w*i", w) for w in rest)):
        yield from (PathChange(path, EDITED) for path in _files_of_editor(rest))
    elif arguments and (name == "restore" or (name == "checkout" and "--" in rest)) and "--staged" not in rest:
        paths = rest[list(rest).index("--") + 1 :] if "--" in rest else files
        yield from (PathChange(path, REVERTED) for path in paths if not path.startswith("-"))
    elif _INTERPRETERS.match(program):
        for text in (*documents, *words[1:3]):
            for match in _WRITING_SCRIPT.finditer(text):
                yield PathChange(next(filter(None, match.groups())), WRITTEN)


def _files_of_editor(arguments: Sequence[str]) -> list[str]:
    """The files of `sed -i` or `perl -i`: the arguments that are neither an option nor a program."""
    files: list[str] = []
    has_program = is_program = False
    for word in arguments:
        if is_program:
            is_program = False
        elif word.startswith("-"):
            is_program = re.fullmatch(r"-[a-zA-Z]*[ef]|--expression|--file", word) is not None
            has_program = has_program or is_program
        elif word:
            files.append(word)
    return files if has_program else files[1:]


# --- splitting --------------------------------------------------------------------------------------------------------


def _split(text: str) -> list[_SimpleCommand]:
    """The simple commands of a command line, in order."""
    commands: list[_SimpleCommand] = [_SimpleCommand()]
    pending: list[tuple[str, _SimpleCommand]] = []  # here-documents that begin on the next line
    at, size = 0, len(text)
    expects: str | None = None  # the redirection whose file comes next
    while at < size and len(commands) < _COMMANDS:
        sign = text[at]
        if sign == "\n":
            at += 1
            for last_line, owner in pending:
                begin = at
                at = _find_document_end(text, at, last_line)
                owner.documents.append(text[begin:at])
            pending.clear()
            commands.append(_SimpleCommand())
            expects = None
        elif sign in " \t":
            at += 1
        elif sign == "#" and (at == 0 or text[at - 1] in " \t\n;"):
            at = _index(text, "\n", at)
        elif sign == "<" and (here := _HERE.match(text, at)):
            pending.append((here[2] or here[3] or here[4], commands[-1]))
            at = here.end()
        elif sign == "<" and (reads := _INPUT.match(text, at)):
            at = reads.end()
            expects = "<"
        elif sign in ">&0123456789" and (writes := _REDIRECT.match(text, at)):
            at = writes.end()
            expects = "&" if writes[2] else writes[1]
        elif sign in "&|;()":
            at += 1
            commands.append(_SimpleCommand())
            expects = None
        else:
            end, word = _read_word(text, at)
            at = max(end, at + 1)
            if expects is None:
                commands[-1].words.append(word)
            elif expects in (">", ">>") and not _NO_FILE.match(word):
                commands[-1].targets.append((word, expects == ">>"))
            expects = None
    return [each for each in commands if each.words or each.targets]


def _index(text: str, sign: str, at: int) -> int:
    place = text.find(sign, at)
    return place if place >= 0 else len(text)


def _find_document_end(text: str, at: int, end: str) -> int:
    """The place after a here-document that ends with this line."""
    while at < len(text):
        stop = _index(text, "\n", at)
        if text[at:stop].strip() == end:
            return stop
        at = stop + 1
    return len(text)


def _read_word(text: str, at: int) -> tuple[int, str]:
    """The place after a word, and the word without its quotes."""
    pieces: list[str] = []
    while at < len(text):
        sign = text[at]
        if sign in " \t\n&|;<>()":
            break
        plain = _PLAIN.match(text, at)
        if plain:
            at = plain.end()
            pieces.append(plain[0])
        elif sign == "'":
            stop = _index(text, "'", at + 1)
            pieces.append(text[at + 1 : stop])
            at = stop + 1
        elif sign == '"':
            stop = _skip_quoted(text, at + 1, 0)
            pieces.append(text[at + 1 : stop - 1])
            at = stop
        elif sign == "\\":
            pieces.append(text[at + 1 : at + 2].replace("\n", ""))
            at += 2
        elif text.startswith("$(", at):
            stop = _skip_substitution(text, at + 2, 0)
            pieces.append(text[at:stop])
            at = stop
        elif sign == "`":
            stop = _index(text, "`", at + 1) + 1
            pieces.append(text[at:stop])
            at = stop
        else:
            pieces.append(sign)
            at += 1
    return at, "".join(pieces)


def _skip_quoted(text: str, at: int, depth: int) -> int:
    """The place after the closing double quote."""
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == '"':
            return at + 1
        elif text.startswith("$(", at) and depth < _DEPTH:
            at = _skip_substitution(text, at + 2, depth + 1)
        else:
            at += 1
    return len(text) + 1


def _skip_substitution(text: str, at: int, depth: int) -> int:
    """The place after the closing parenthesis of `$(`."""
    nesting = 1
    end = ""
    while at < len(text):
        sign = text[at]
        if sign == "\n" and end:
            at = _find_document_end(text, at + 1, end)
            end = ""
        elif sign == "<" and (here := _HERE.match(text, at)):
            end = here[2] or here[3] or here[4]
            at = here.end()
        elif sign == "'":
            at = _index(text, "'", at + 1) + 1
        elif sign == '"' and depth < _DEPTH:
            at = _skip_quoted(text, at + 1, depth + 1)
        elif sign == "\\":
            at += 2
        else:
            nesting += (sign == "(") - (sign == ")")
            at += 1
            if not nesting:
                return at
    return len(text)
