"""Deterministic texts of many kinds, to hold counters against."""

import base64
import json
import random

WORDS = (
    "the server returns an error when request has no header and client should retry after a short delay because cache"
    " was cleared before next build finished so we changed default value in configuration file to avoid that problem"
).split()
SPEECH = {
    "chinese": "我们在配置文件中修改了默认值，因为缓存在下一次构建完成之前被清除。服务器会返回错误。",
    "japanese": "設定ファイルの既定値を変更しました。キャッシュが消去されました。サーバーはエラーを返します。",
    "korean": "설정 파일의 기본값을 변경했습니다. 캐시가 지워졌기 때문입니다. 서버가 오류를 반환합니다.",
    "russian": "Мы изменили значение по умолчанию в файле настроек, потому что кэш был очищен до окончания сборки.",
    "arabic": "قمنا بتغيير القيمة الافتراضية في ملف الإعدادات لأن ذاكرة التخزين المؤقت تم مسحها قبل البناء.",
    "german": "Wir haben den Vorgabewert in der Konfigurationsdatei geändert, weil der Zwischenspeicher geleert wurde.",
}
EMOJI = "😀🎉🚀👍🔥🤖💡📦🧪😂🥳🌍🍕🎯🧠👀💥✨🙏"


def english(pick: random.Random) -> str:
    return " ".join(
        " ".join(pick.choice(WORDS) for _ in range(pick.randint(6, 14))).capitalize() + "." for _ in range(60)
    )


def python(pick: random.Random) -> str:
    names = [f"{one}_{two}" for one in WORDS[:12] for two in WORDS[12:20]]
    blocks = []
    for _ in range(40):
        a, b = pick.choice(names), pick.choice(names)
        blocks.append(
            f"def {a}(self, {b}: int = {pick.randint(0, 99)}) -> str:\n"
            f'    """Return the {pick.choice(WORDS)} {pick.choice(WORDS)}."""\n'
            f"    if not self.{b} or len({b}) > {pick.randint(2, 9)}:\n"
            f'        raise ValueError(f"no {{{b}}} in {pick.choice(WORDS)}")\n'
            f"    return [self.{a}(item) for item in {b}.items() if item]\n\n"
        )
    return "".join(blocks)


def records(pick: random.Random) -> list[dict[str, object]]:
    return [
        {
            "id": number,
            "name": f"{pick.choice(WORDS)} {pick.choice(WORDS)}",
            "price": round(pick.random() * 1000, 2),
            "tags": [pick.choice(WORDS) for _ in range(3)],
            "created_at": f"2026-0{pick.randint(1, 9)}-{pick.randint(10, 28)}T1{pick.randint(0, 9)}:20:00Z",
        }
        for number in range(60)
    ]


def hexes(pick: random.Random, length: int) -> str:
    return "".join(pick.choice("0123456789abcdef") for _ in range(length))


def log(pick: random.Random) -> str:
    def line() -> str:
        ident = "-".join(hexes(pick, size) for size in (8, 4, 4, 4, 12))
        return (
            f"2026-{pick.randint(1, 12):02}-{pick.randint(1, 28):02}T{pick.randint(0, 23):02}:{pick.randint(0, 59):02}:"
            f"{pick.randint(0, 59):02}.{pick.randint(0, 999):03}Z {pick.choice(['INFO', 'WARN', 'ERROR'])} [worker-7]"
            f" req={ident} user={pick.randint(1000, 99999)} took {pick.randint(1, 9000)}ms"
            f" path=/v1/orders/{pick.randint(1, 99999)}"
        )

    return "\n".join(line() for _ in range(50))


def speech(pick: random.Random, language: str) -> str:
    pieces = SPEECH[language].replace("，", "，\0").replace("。", "。\0").replace(" ", " \0").split("\0")
    return "".join(pick.choice(pieces) for _ in range(200))


def texts(seed: int) -> dict[str, str]:
    pick = random.Random(seed)
    data = records(pick)
    return {
        "english": english(pick),
        "python": python(pick),
        "json pretty": json.dumps(data, indent=2),
        "json minified": json.dumps(data, separators=(",", ":")),
        "log": log(pick),
        "hex": hexes(pick, 4000),
        "base64": base64.b64encode(pick.randbytes(3000)).decode(),
        "digits": " ".join(str(pick.randrange(10 ** pick.randint(1, 9))) for _ in range(500)),
        "emoji": "".join(pick.choice(EMOJI) for _ in range(500)),
        **{language: speech(pick, language) for language in SPEECH},
    }
