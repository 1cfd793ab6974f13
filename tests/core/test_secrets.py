"""What is secret is masked, what is not stays, and it takes time that grows with the text only."""

import base64
import json
import random
import uuid
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tidegate.core.text.secrets import MASKED, SecretMask

DIE = random.Random(11)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ALNUM = LETTERS + "0123456789"
TOKEN = ALNUM + "_-"


def noise(length: int, letters: str = ALNUM) -> str:
    """Something as random as a key. It is made here so that no file of ours holds one."""
    while True:
        made = "".join(DIE.choices(letters, k=length))
        if any(char.isdigit() for char in made) and any(char.isalpha() for char in made) and made[-1].isalnum():
            return made


HEX = "0123456789abcdef"
# A prefix that must stay and a rest that must not.
KEYS = {
    "openai": ("sk-", noise(48)),
    "openai project": ("sk-proj-", noise(120, TOKEN)),
    "openai service": ("sk-", "svcacct-" + noise(80)),
    "anthropic": ("sk-ant-", "api03-" + noise(93, TOKEN)),
    "openrouter": ("sk-", "or-v1-" + noise(64, HEX)),
    "deepseek": ("sk-", noise(32, HEX)),
    "aws": ("AKIA", noise(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
    "aws session": ("ASIA", noise(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
    "github": ("ghp_", noise(36)),
    "github oauth": ("gho_", noise(36)),
    "github server": ("ghs_", noise(36)),
    "github fine": ("github_pat_", noise(22) + "_" + noise(59)),
    "gitlab": ("glpat-", noise(20, TOKEN)),
    "slack bot": ("xoxb-", "1234567890-" + noise(24)),
    "slack user": ("xoxp-", "1234567890-1234567890-" + noise(32)),
    "slack app": ("xapp-", "1-A0123-" + noise(40)),
    "slack hook": ("https://hooks.slack.com/services/", "T0123456/B0123456/" + noise(24)),
    "google": ("AIza", noise(35, TOKEN)),
    "google oauth": ("ya29.", noise(60, TOKEN)),
    "google client": ("GOCSPX-", noise(28, TOKEN)),
    "hugging face": ("hf_", noise(34)),
    "npm": ("npm_", noise(36)),
    "pypi": ("pypi-", "AgEIcHlwaS5vcmc" + noise(100, TOKEN)),
    "stripe": ("sk_live_", noise(24)),
    "stripe restricted": ("rk_live_", noise(24)),
    "sendgrid": ("SG.", noise(22, TOKEN) + "." + noise(43, TOKEN)),
    "groq": ("gsk_", noise(52)),
    "databricks": ("dapi", noise(32, HEX)),
    "vault": ("hvs.", noise(90)),
    "jwt": ("eyJ", noise(30) + ".eyJ" + noise(60) + "." + noise(43, TOKEN)),
    "telegram": ("110201543:AA", noise(33, TOKEN)),
    "bearer": ("Bearer ", noise(40)),
    "url": ("postgresql://user:", "s3cr$t!pass"),
}
AROUND = [
    "{}", "key {} here", "'{}'", '{{"value": "{}"}}', "<{}>", "({}),", "KEY={}", "a\n{}\nb", "a\\n{}\\nb",
    "\x1b[32m{}\x1b[0m", "密钥{}在此", "{},{}", "x%3D{}%26", "`{}`", "= {};",
]  # fmt: skip


IN_NO_URL = ("bearer", "url", "telegram", "slack hook")
PLACES = [(kind, around) for around in AROUND for kind in KEYS if "%3D" not in around or kind not in IN_NO_URL]


def test_a_key_is_masked_wherever_it_stands() -> None:
    """Every kind of key in every surrounding. What stands behind it stays."""
    for kind, around in PLACES:
        prefix, rest = KEYS[kind]
        end = "@host" if kind == "url" else ""
        text = around.replace("{{", "{").replace("}}", "}").replace("{}", prefix + rest + end)
        done = SecretMask()(text)
        assert rest not in done, (kind, around)
        assert rest[:-6] not in done, (kind, around)
        assert prefix in done, (kind, around)
        assert MASKED in done, (kind, around)
        assert done.endswith(text[text.rfind(rest) + len(rest) :][-3:]), (kind, around)
        assert SecretMask()(done) == done, (kind, around)


PEM = "\n".join(noise(64, ALNUM + "+/") for _ in range(12)) + "\n" + noise(11) + "="
LOCKED = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0"
S = noise(24)
NAMED = [
    (f"aws_secret_access_key={noise(40, ALNUM + '+/')}", 22),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzKEYY", 24),
    (f'"secretAccessKey": "{S}"', 20),
    (f"API_KEY={S}", 8),
    (f"OPENAI_API_KEY: {S}", 16),
    (f'api_key="{S}"', 9),
    (f"apiKey: '{S}'", 9),
    (f'{{"client_secret":"{S}"}}', 18),
    (f'{{\\"api_key\\": \\"{S}\\"}}', 16),
    (f"x-api-key: {S}", 11),
    (f"X-Auth-Token: {S}", 14),
    ("DB_PASSWORD=hunter2hunter2", 12),
    ("DB_PASS=hunter2hunter2", 8),
    ('password: "correct-horse"', 11),
    ("password='Tr0ub4dor&3'", 10),
    ("?user=me&password=hunter2hunter2&x=1", 18),
    (f"https://host/path?token={S}&x=1", 24),
    ("<password>hunter2hunter2</password>", 10),
    ("mysql --password hunter2hunter2 -h host", 17),
    (f"tool --token {S}", 13),
    (f"AccountName=a;AccountKey={noise(86, ALNUM + '+/')}==;Suffix=x", 25),
    (f"Authorization: Basic {base64.b64encode(b'user:hunter2').decode()}", 21),
    (f'"authorization": "Bearer {S}"', 25),
    (f"Authorization: {S}", 15),
    (f"Cookie: session={S}; other={S}", 16),
    (f"api_key: str = \"{S}\"", 16),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}\n-----END RSA PRIVATE KEY-----", 31),
    (f"-----BEGIN PRIVATE KEY-----\\n{PEM}\\n-----END PRIVATE KEY-----".replace("\n", "\\n"), 27),
    (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PEM[:300]}", 35),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{LOCKED}\n\n{PEM}\n-----END RSA PRIVATE KEY-----", 31),
    ("redis://:p4ss@cache:6379/0", 9),
    ("https://user:pa%20ss@host", 13),
    ("amqp://user:p@ss:w0rd@host:5672/", 12),
]  # fmt: skip


def test_what_a_name_gives_away_is_masked() -> None:
    """The name itself stays readable."""
    for text, start in NAMED:
        done = SecretMask()(f"before {text}\nafter")
        assert done.startswith("before " + text[:start].rstrip("\\n")), text
        assert MASKED in done, text
        assert text[start : start + 8] not in done[len("before ") + start :], text
        assert done.endswith("\nafter"), text
        assert SecretMask()(done) == done, text


PICTURE = base64.b64encode(random.Random(5).randbytes(400_000)).decode()
ORDINARY = [
    "token = tokens[0]",
    "token = self.tokens[index1]",
    "password = getpass.getpass()",
    "connect(password=password, token=access_token, secret=settings.secret2)",
    'api_key = os.environ["OPENAI_API_KEY"]',
    "API_KEY=$OPENAI_API_KEY",
    "api_key: ${{ secrets.API_KEY2 }}",
    'password: "<your-password>"',
    "password: {{ vault_password_2 }}",
    "password=********",
    '"max_tokens": 4096, "token": 151643',
    'nextPageToken: "CAUQAA12345678"',
    "eos_token: '<|endoftext|>'",
    "def tokenize(token: str, secret: bytes) -> int:",
    "the password is required; the token expired",
    "PWD=/home/user/project2",
    "private_key: /etc/ssl/private/server1.pem",
    "token > threshold1234",
    "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "id " + str(uuid.UUID(int=random.Random(3).getrandbits(128))),
    "<div class='sk-fading-circle sk-cube-grid-layout-12-columns'>",
    "task-sk-and-so-on, desk-organiser-for-12345678-items",
    "the risk-assessment-document-for-2024-and-later",
    "see https://example.com:8443/a@b and ssh://git@github.com/x/y",
    "http://username:password@host.com:80/path?query#fragment",
    "mail me@example.com: the ratio 3:4@5",
    "ASIA and AKIA are prefixes; ASIAPACIFICREGION; gh_pages; hf_hub; npm_config_registry; pypi-server",
    "arn:aws:iam::123456789012:role/thing",
    "msg_01AbCdEfGhIjKlMnOpQrStUv call_abcdefghij0123456789 toolu_01A09q90qw90lq917835lq9",
    "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT req_011CSHoEeqs5C35K2UUqR7Fy",
    "bearer authentication is required; Bearer realm-of-the-example-server",
    "authorization: required-for-everyone",
    "Cookie: chocolate chips",
    "-----BEGIN PRIVATE KEY----- is how such a file begins",
    f"-----BEGIN CERTIFICATE-----\n{PEM}\n-----END CERTIFICATE-----",
    f"-----BEGIN PUBLIC KEY-----\n{PEM}\n-----END PUBLIC KEY-----",
    f"data:image/png;base64,{PICTURE}",
    '{"image": "' + PICTURE.replace("+", "-").replace("/", "_") + '"}',
    "integrity sha512-" + base64.b64encode(bytes(range(64))).decode(),
    "2024-01-01T10:00:00Z [INFO] request 7f9c2ba4 took 12 ms",
]  # fmt: skip


def test_what_is_ordinary_stays() -> None:
    assert [text[:80] for text in ORDINARY if SecretMask()(text) != text] == []


def test_our_own_sources_hold_no_secret() -> None:
    """Real code with many of these words in it. Only the patterns themselves look like secrets."""
    root = Path(__file__).parents[2]
    changed = []
    for path in sorted(root.glob("src/**/*.py")):
        text = path.read_text("utf-8")
        if path.name != "secret_shapes.py" and SecretMask()(text) != text:
            changed.append(path.name)
    assert changed == []


def test_one_mask_for_many_texts() -> None:
    """It knows again what it gave last, and nothing else."""
    mask, text = SecretMask(), f"API_KEY={S}"
    assert [mask(each) for each in (text, text, "plain", text)] == ["API_KEY=[masked]"] * 2 + [
        "plain",
        "API_KEY=[masked]",
    ]


# Configured values.


def test_configured_values_in_every_form() -> None:
    value = 'p4 "w\\ö/rd+x&y'
    mask = SecretMask([value, "", "short", "longer-than-that"])
    for form in (value, json.dumps(value), json.dumps(value, ensure_ascii=False), quote(value, ""), quote_plus(value)):
        done = mask(f"before {form} after")
        assert done.replace('"', "") == f"before {MASKED} after"
        assert SecretMask([value])(done) == done
    assert mask(quote(value, "").lower()) == MASKED
    assert mask("short is not looked for; longer-than-that is") == f"short is not looked for; {MASKED} is"
    assert SecretMask([value])("longer-than-that") == "longer-than-that"


def test_a_configured_key_keeps_its_prefix_and_the_longer_value_goes_first() -> None:
    key = "sk-ant-" + noise(40)
    assert SecretMask([key])(f"x{key}y") == "xsk-ant-…[masked]y", "also inside a word, where no shape is seen"
    assert SecretMask([key])(f"={key}") == "=sk-ant-…[masked]"
    assert SecretMask(["abcdefgh", "abcdefghijkl"])("abcdefghijkl abcdefgh") == f"{MASKED} {MASKED}"
    assert SecretMask(["a.c(e)g*"])("abcdeeg* a.c(e)g*") == f"abcdeeg* {MASKED}"


# Encoded, wrapped and cut.

BEGIN = "-----BEGIN PRIVATE KEY-----"
ANTHROPIC = "sk-ant-api03-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0" * 3


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("before", ["", "u:", "user:", "a user "])
def test_base64_of_a_secret_is_masked_wherever_it_begins(before: str) -> None:
    for secret in (ANTHROPIC, "postgresql://me:hunter2hunter2@host/db", f"{BEGIN}\n{PEM}\n-----END PRIVATE KEY-----"):
        encoded = base64_of(f"{before}{secret} and more")
        wrapped = "\n".join(encoded[at : at + 76] for at in range(0, len(encoded), 76))
        for form in (encoded, encoded.replace("+", "-").replace("/", "_").rstrip("="), wrapped, wrapped + "\nend"):
            assert SecretMask()(f"data: {form}\n").removesuffix("\nend\n").removesuffix("\n") == f"data: {MASKED}"


def test_base64_of_anything_else_stays() -> None:
    for text in ("a long text about nothing in particular", json.dumps({"port": 8443, "host": "example.org"})):
        assert SecretMask()(base64_of(text)) == base64_of(text)


def test_a_secret_in_a_quoted_url_is_masked_and_the_rest_can_be_read() -> None:
    inner = "https://deploy:hunter2hunter2@git.example.org/x"
    done = SecretMask()(f"see https://a.example/?next={quote(inner, safe='')}&y=1 there")
    assert done == f"see https://a.example/?next=https://deploy:{MASKED}@git.example.org/x&y=1 there"
    plain = f"see https://a.example/?q={quote('a b/c', safe='')}"
    assert SecretMask()(plain) == plain


@pytest.mark.parametrize("width", [24, 40, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n    ", "\\n", "\\\n"])
def test_a_key_that_is_split_over_lines_is_masked_and_the_next_line_stays(width: int, end: str) -> None:
    text = end.join(ANTHROPIC[at : at + width] for at in range(0, len(ANTHROPIC), width))
    done = SecretMask()(f"the key:{end}{text}{end}then more words")
    assert done == f"the key:{end}sk-ant-…{MASKED}{end}then more words"


SPLITS = [
    "\n", "\r\n", "\n\t", "\\\n    ", "\\n", "\\\\n", "\n> ", "\n+", "\n# ", "\n  12: ", "\n    12\t", "\n12→",
    '"\n    "', "'\n    '", '" +\n    "', '"\n    + "', '" + "', "' .\n  '", '" & _\n  "', '\\"\n  \\"',
    '\\" +\\n  \\"', '"\\\n"', "\\n\\t", "\\n   12\\t", "\n\xa0\xa0", "\f", "\u2028", "\u200b", "\xad", "\u2060\ufeff",
]  # fmt: skip
WHOLE = {kind: "".join(KEYS[kind]) for kind in ("anthropic", "aws", "github", "google", "slack bot", "jwt")}


@pytest.mark.parametrize("split", SPLITS)
def test_a_key_is_masked_wherever_it_is_split(split: str) -> None:
    """Also inside its prefix, and a few characters before its end."""
    for kind, key in WHOLE.items():
        for cut in (3, 8, len(key) // 3, len(key) // 2, len(key) - 12, len(key) - 5):
            done = SecretMask()(f'key = "{key[:cut]}{split}{key[cut:]}"\nthen more words')
            after = SecretMask()(f'the words\n{key[:cut]}{split}{key[cut:]}"\nthen more words')
            assert after.startswith("the words\n"), (kind, cut)
            assert after.endswith(done.removeprefix('key = "')), (kind, cut)
            assert not any(key[at : at + 12] in done for at in range(len(key) - 11)), (kind, cut)
            assert done.startswith('key = "'), (kind, cut)
            assert done.endswith('"\nthen more words'), (kind, cut)
            assert SecretMask()(done) == done, (kind, cut)


@pytest.mark.parametrize("split", ["\\\n", "\\\r\n", "\\\n    ", "\\\\\\n", "\u200b"])
@pytest.mark.parametrize("size", [4, 5, 6, 7, 8, 10, 12, 14])
def test_a_key_in_many_short_pieces_is_masked_where_it_is_certain_that_they_are_one_text(split: str, size: int) -> None:
    for kind, key in WHOLE.items():
        pieces = [key[at : at + size] for at in range(0, len(key), size)]
        done = SecretMask()(f'key = "{split.join(pieces)}"\nthen more words')
        assert not any(piece in done for piece in pieces[8 // size + 1 :] if len(piece) == size), (kind, done)
        assert done.startswith('key = "')
        assert done.endswith('"\nthen more words')
        assert SecretMask()(done) == done


LAYOUTS = {
    "a table": "| name | key{gap}| note |\n|------|---{rule}|------|\n| one  | {one} | main |\n|      | {two} | user |",
    "a table without a frame": " vendor | {one} | main\n        | {two} | user",
    "a drawn table": "│ vendor │ {one} │ main │\n│        │ {two} │ user │",
    "a panel": "┃ {one} ┃\n┃ {two} ┃",
    "a table in JSON": '{{"text": "| vendor | {one} | main |\\n|        | {two} | user |"}}',
    "grep -n -C": "src/notes-2.txt:12:{one}\nsrc/notes-2.txt-13-{two}\nsrc/notes-2.txt-14-and words",
    "grep of every line": "src/notes.txt:9:{one}\nsrc/notes.txt:10:{two}",
    "grep -C": "notes.txt:{one}\nnotes.txt-{two}\nnotes.txt-and words",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_key_is_masked_in_the_cells_of_a_table_and_in_lines_with_a_file_name(layout: str) -> None:
    for kind, key in WHOLE.items():
        width = (len(key) + 1) // 2
        shown = LAYOUTS[layout].format(one=key[:width], two=key[width:].ljust(width), gap=" " * width, rule="-" * width)
        done = SecretMask()(shown)
        assert not any(key[at : at + 8] in done for at in range(8, len(key) - 7)), (kind, done)
        assert "main" not in shown or "main" in done
        assert "user" not in shown or "user" in done
        assert done.count("\n") == shown.count("\n")
        assert SecretMask()(done) == done
    value = noise(32)
    shown = LAYOUTS[layout].format(one=value[:16], two=value[16:], gap="", rule="")
    assert value[:16] in SecretMask()(shown), "nothing says that it is a secret"
    done = SecretMask([value])(shown)
    assert value[:16] not in done
    assert value[16:] not in done


def test_what_is_below_a_key_in_a_table_stays() -> None:
    key = f"ghp_{noise(36)}"
    gap = " " * 36
    table = f"| name | key {gap} |\n| one  | {key} |\n| two  | none{gap} |"
    assert SecretMask()(table) == table.replace(key, f"ghp_…{MASKED}")
    grep = f"a.env:12:A={key}\na.env-13-B=main\nb.env:7:C=other"
    assert SecretMask()(grep) == grep.replace(key, f"ghp_…{MASKED}")


@pytest.mark.parametrize("split", ["\\\n    ", '"\n    + "', '" + "', "' .\n  '", '\\" +\\n  \\"'])
@pytest.mark.parametrize("before", ['password = "', 'api_key: "', '"Authorization: Bearer ', 'it is "'])
def test_a_value_is_masked_in_all_strings_of_a_concatenation(split: str, before: str) -> None:
    first, second = noise(16), noise(16)
    done = SecretMask([first + second])(f'{before}{first}{split}{second}"\nthen more words')
    assert done == f'{before}{MASKED}"\nthen more words'
    done = SecretMask()(f'{before}{first}{split}{second}"\nthen more words')
    assert (first in done, second in done) == (before == 'it is "',) * 2


@pytest.mark.parametrize("text", [
    f"ghp_{noise(36)}\nmain\nother", f'"ghp_{noise(36)}"\n"main"', f"A=ghp_{noise(36)}\nAWS_S3_B=1",
    f"ghp_{noise(36)}\\\nmain\\\nother", "see AKIA\\\nand ASIA\\\nPACIFIC\\\nREGION\\\nTABLES",
    "see AKIA\nand ASIA\nPACIFICREGION", "the prefix is xoxb-\nand-then-something-else", 'password = "" + "x"\n',
    'f("sk-" + "a-very-long-name-of-something")',
])  # fmt: skip
def test_words_in_the_line_after_a_key_stay(text: str) -> None:
    done = SecretMask()(text)
    assert done.split("\n")[1:] == text.split("\n")[1:]
    assert (done == text) == ("ghp_" not in text)


@pytest.mark.parametrize("cut", [10, 30, 60])
def test_what_a_cut_has_left_of_a_known_secret_is_masked(cut: int) -> None:
    key = "".join(KEYS["anthropic"])
    mask, rest = SecretMask(), key[cut + 10 :]
    assert rest in mask(f"[...] {rest} is the end"), "nobody can know"
    mask(f"key {key}")
    assert mask(f"[...] {rest} is the end") == f"[...] {MASKED} is the end"
    assert mask(f"in the middle {rest[5:-5]}, too") == f"in the middle {MASKED}, too"
    assert rest in mask.fresh()(f"[...] {rest} is the end"), "another mask knows nothing of it"


@pytest.mark.parametrize("ending", ["", "\n", "\nmore words"])
def test_the_first_characters_of_a_secret_are_masked_where_a_text_was_cut(ending: str) -> None:
    mask = SecretMask(["563FkagILb/wkQ2vXr9s+TzP04"])
    assert mask(f'it is "563FkagILb/wk{ending}') == f'it is "{MASKED}{ending}'


def test_an_ordinary_password_does_not_hide_ordinary_words() -> None:
    mask = SecretMask(["correct horse battery staple"])
    assert mask('password: "correct-horse-battery"') == f'password: "{MASKED}"'
    assert mask("a correct horse, a battery") == "a correct horse, a battery"


def test_the_end_of_a_private_key_is_masked() -> None:
    tail = "\n".join(PEM.split("\n")[-4:])
    done = SecretMask()(f"$ tail -4 server.pem\n{tail}\n-----END RSA PRIVATE KEY-----\n$ ")
    assert done == f"$ tail -4 server.pem\n{MASKED}\n-----END RSA PRIVATE KEY-----\n$ "
    certificate = f"{tail}\n-----END CERTIFICATE-----"
    assert SecretMask()(certificate) == certificate


def test_values_may_be_added() -> None:
    mask = SecretMask()
    assert mask("the value-of-mine is here") == "the value-of-mine is here"
    mask.add(["value-of-mine"])
    assert mask("the value-of-mine is here") == f"the {MASKED} is here"
    assert mask.fresh()("the value-of-mine is here") == f"the {MASKED} is here"


MARKS = [MASKED, "…", '"', "'", " ", "\n", "\\", "=", ":", "@", "://", "[", "(", ".", ";", "a1b2c3d4e5", "value123"]
PIECES = st.sampled_from([
    *(prefix + rest for prefix, rest in KEYS.values()), *(prefix for prefix, _ in KEYS.values()),
    *(text for text, _ in NAMED[:26]), *MARKS,
    "sk-", "password=", "token: ", "Authorization: ", "-----BEGIN PRIVATE KEY-----", "configured-value",
])  # fmt: skip


@settings(max_examples=scaled(150))
@given(st.lists(PIECES, max_size=10).map("".join))
def test_twice_is_once(text: str) -> None:
    values = ["configured-value", "value123 "]
    once = SecretMask(values)(text)
    assert SecretMask(values)(once) == once
    assert "configured-value" not in once


HOSTILE = [
    "eyJ", "sk-", "sk-ab ", BEGIN, BEGIN + "A" * 16, BEGIN + "\n" * 99, "://a:", "password=", "password=a1", "\\",
    "eyJaaaaaaaaa.", "token ", "Cookie: a=b; ", "Authorization: ", "Bearer ", MASKED, "AKIA", "-----BEGIN ", "x",
    "sk-" + "a" * 61, "sk-ab1\n", "-----END PRIVATE KEY-----", "A" * 64 + "\n", "%41", "api-key", "eyJ\n",
]  # fmt: skip


@pytest.mark.exhaustive
def test_hostile_text_of_megabytes_ends() -> None:
    """A pattern that backtracks without a bound would never end. A megabyte; five with `TIDEGATE_CASES=5`."""
    megabytes = scaled(1)
    heads = ["", "password", "://", BEGIN, 'token="']
    size = megabytes * 1_000_000 // len(HOSTILE)
    texts = [heads[place % len(heads)] + piece * (size // len(piece)) for place, piece in enumerate(HOSTILE)]
    text = "\n".join(texts)
    assert len(text) > 980_000 * megabytes
    done = SecretMask()(text)
    assert MASKED in done
    assert len(done) < 2 * len(text)
