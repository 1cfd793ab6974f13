"""What is one word to a person is found as one, in texts and in queries."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.memory.words import extract_words, normalize_text, parse_query

WORDS = [
    ("max_context_tokens", "max context tokens", "maxcontexttokens"),
    ("maxContextTokens", "max context tokens", "maxcontexttokens"),
    ("MAX_CONTEXT", "max context", "maxcontext"),
    ("parseHTTPResponse2", "parse http response2", "parsehttpresponse2"),
    ("core.plan.run()", "core plan run", ""),
    ("src/tidegate/core/plan.py:42", "src tidegate core plan py 42", ""),
    ("--no-verify", "no verify", ""),
    ("std::vector<int>", "std vector int", ""),
    ("sqlite3 a3f9c2e", "sqlite3 a3f9c2e", ""),
    ("Straße NAÏVE Ｗｉｄｅ", "strasse naive wide", ""),
    ("数据库", "数据 据库 库", ""),
    ("使用SQLite数据库", "使用 用 sq lite 数据 据库 库", "sqlite"),
    ("ｶﾞﾗｽ・ドア", "ガラ ラス ス ドア ア", ""),
    ("데이터베이스를", "데이 이터 터베 베이 이스 스를 를", ""),
    ("базаДанных Ωμέγα", "базаданных ωμεγα", ""),
    ("x" * 500, "x" * 64, ""),
    ("🎉 -> != \0", "", ""),
]


def test_words() -> None:
    for text, parts, wholes in WORDS:
        words = extract_words(text)
        assert (words.parts, words.wholes) == (parts.split(), wholes.split()), text


@given(st.text() | st.text("aB_.数が\u0301é \"*():^'-"))
def test_nothing_with_a_meaning_comes_out(text: str) -> None:
    words = extract_words(text)
    phrases = [word for unit in parse_query(text, 100) for phrase in (*unit.phrases, (unit.whole,)) for word in phrase]
    for word in (*words.parts, *words.wholes, *phrases):
        assert not set(word) & set(" \"'*():^-+{},.\0\n\t")
        assert len(word) <= 64


def test_a_long_text_of_another_script_is_no_trouble() -> None:
    assert len(extract_words("数据库" * 100_000).parts) == 300_000
    assert normalize_text("é" * 3) == "eee"
