"""One history by hand that holds everything at once: what the exhaustive tests cut at every place."""

from tests.laws.conversations import IMAGES, SIGNED
from tidegate.core.messages import TOOL_RESULT, Call, Image, Message, Part, Result, Text, Thinking


def asks(*parts: str | Image) -> Message:
    return Message("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def says(*parts: str | Part, origin: str = "") -> Message:
    return Message("assistant", tuple(Text(p) if isinstance(p, str) else p for p in parts), origin=origin)


def gives(call_id: str, *parts: str | Image, error: bool = False, visible: bool = True) -> Message:
    shown = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return Message("tool", (Result(call_id, shown, error),), kind=TOOL_RESULT, agent_visible=visible)


def call(ident: str, name: str = "read", arguments: str = '{"path": "src/main.py"}') -> Call:
    return Call(ident, name, arguments)


LISTING = "\n".join(f"{n:4d}  def function_{n}(argument):  # line {n} of the listing" for n in range(40))
TABLE = "[" + ", ".join(f'{{"id": {n}, "name": "row {n}", "ok": true}}' for n in range(30)) + "]"
EDIT = '{"path": "a.py", "content": "' + "x = 1\\n" * 120 + '"}'
SECRET = Thinking(block=SIGNED["anthropic"][0])
REASONING = Thinking(block=SIGNED["openai_responses"][0])
PICTURE = IMAGES[0]

RICH: tuple[Message, ...] = (
    # The assistant speaks first, twice.
    says("Hello, I am ready."),
    says("Ask me anything."),
    # A plain turn, and one with an empty answer.
    asks("What is in this repository?"),
    says("Let me look."),
    asks("  \n "),
    says(""),
    # Calls, one by one, with signed thinking.
    asks("Please list the files and read the main one."),
    says(SECRET, "I list them.", call("toolu_01", "bash", '{"command": "ls -la"}'), origin="anthropic"),
    gives("toolu_01", "main.py\nREADME.md\ntests"),
    says(SECRET, call("toolu_02"), origin="anthropic"),
    gives("toolu_02", LISTING),
    says("It defines forty functions.", origin="anthropic"),
    # Parallel calls, results in another order, one an error, one a picture.
    asks("Compare these three.", PICTURE, "The picture shows the plan."),
    says("In parallel.", call("p1"), call("p2"), call("p3", "web_search", '{"q": "漢字"}')),
    gives("p3", "a long page about 漢字かな交じり文 " * 12),
    gives("p1", "no such file", error=True),
    gives("p2", "a screenshot", PICTURE),
    says("The first is missing."),
    # An interruption: the user speaks before the results, one comes late, one never.
    asks("Run the tests."),
    says(call("t1", "bash", '{"command": "make test"}'), call("t2", "bash", '{"command": "make check"}')),
    asks("Stop! Do something else."),
    gives("t1", "12 passed"),
    says("Stopped."),
    # A result nobody asked for, a hidden note, a hidden result.
    gives("nobody", "an answer from another life"),
    Message("user", (Text("a note for people only"),), agent_visible=False),
    asks("Fetch the table."),
    says(call("h1", "sql", '{"query": "select *"}')),
    gives("h1", "a secret result", visible=False),
    says("I have it."),
    # System messages in mid-conversation.
    Message("system", (Text("The budget for today is 5 €."),)),
    asks("And now the real table, please."),
    says("As JSON.", call("j1", "sql", '{"query": "select * from t"}')),
    gives("j1", TABLE),
    says("Thirty rows."),
    # Odd ids: empty, the same twice in a message and again later, far too long; odd names; broken arguments.
    asks("Odd ids now."),
    says(
        call("", "read", ""),
        call("same", "bad name!", '{"a": '),
        call("same", "", "not json"),
        call("x" * 200, "y" * 90),
    ),
    gives("same", "first"),
    gives("", "nameless"),
    gives("x" * 200, "long"),
    gives("same", "second"),
    says(call("same", "read", "[1, 2]")),
    gives("same", ""),
    says("All odd."),
    # Scripts, emoji, right to left, terminal colours, a NUL.
    asks("שלום עולם, مرحبا, नमस्ते, 👩‍👩‍👧‍👦🏳️‍🌈, e\u0301\u0302"),
    says("한국어 문장 " * 20, Thinking("plain thoughts " * 10)),
    asks("\x1b[31mred\x1b[0m and nul\x00nul"),
    # Huge arguments, and reasoning of another provider.
    says(REASONING, "I write the file.", call("w1", "write", EDIT), origin="openai_responses"),
    gives("w1", "written"),
    says(REASONING, "Done.", origin="openai_responses"),
    # Two requests in a row; the second is the long one.
    asks("One more thing."),
    asks("Explain the result in detail. " * 30),
    says("It is like this. " * 60),
    # A turn still under way: the newest request, work done, the last result large.
    asks("Finally: read everything again and tell me what to do next. Do not change any file!"),
    says("Reading.", call("z1"), call("z2", "bash", '{"command": "cat *"}')),
    gives("z2", LISTING[:1200]),
    gives("z1", "short"),
    says(SECRET, "One more.", call("z3", "bash", '{"command": "cat big"}'), origin="anthropic"),
    gives("z3", LISTING + TABLE),
)
NEWEST = "Finally: read everything again and tell me what to do next. Do not change any file!"
