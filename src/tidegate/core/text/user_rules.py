"""Rules in user messages: what must hold from now on, as opposed to a single request.

The sentences are returned word for word. Only text that the user may have typed is read (`core/text/rule_text.py`): the
same words in a file or in tool output are data. A sentence taken for a rule by mistake costs only a line, so in doubt
it is taken. Not taken are descriptions of a fact ("it always fails"), questions, and words in quotation marks. A rule
that is missed can be pinned by hand.

Every expression is a choice of words with bounded gaps: none can backtrack badly.
"""

import re
from itertools import pairwise
from typing import Final

from tidegate.core.messages import HANDOFF, Message, is_user_request
from tidegate.core.text.bounded_memo import BoundedMemo
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.rule_text import LIST_ITEM, rule_text
from tidegate.core.text.word_choice import join_by_first_letter

MAX_RULE_CHARS: Final = 400
"""Characters. A longer sentence is not taken for a rule; recall returns the whole message."""
MAX_RULES_PER_MESSAGE: Final = 40
"""The most rules taken from one message."""

_WORD: Final = r"\b"
_ENGLISH: Final = (
    r"^(?:please,? |also,? |and |but |so |ok,? |note: |important: |rule(?: \d+)?: )*"
    r"(?:never|always|do not|don['’]?t|only|avoid|prefer|use|keep|make sure|ensure|be sure|remember|stick to|stop"
    r"|refrain|whenever|no (?:more )?\w+ (?:in|on|to|for|without|unless|after|before)|by default|treat)\b",
    r"(?:[,;:–—-] |\b(?:and|but|please|to|you|we|must|should|shall|will|can|may|are|be) )(?:never|always) ",
    r"(?:[,;:–—-] |\b(?:and|but|please|you|must|so) )(?:do not|don['’]t) "
    r"(?!know|think|see|understand|have|believe|mind)",
    r"\b(?<!there )must(?:n['’]?t)?\b(?! have )(?! be a )",
    r"\b(?:shall not|may (?:not|never|only)|(?:you|we) (?:have|need) to"
    r"|should(?:n['’]?t| (?:not|never|always|only|be)))\b",
    r"\b(?:is|are|be) (?:strictly |absolutely )?"
    r"(?:forbidden|prohibited|mandatory|required|off[- ]limits|not (?:allowed|permitted|acceptable|an option))\b",
    r"\b(?:from (?:now|here|this point) on(?:wards?)?|going forward|as a rule|without exception|no matter what"
    r"|under no circumstances|at all times|in no case|until I (?:say|tell))\b",
    r"\bI(?:['’]d| would)? (?:prefer|insist|rather|always want|never want|don['’]t want|do not want)\b",
    r"(?:^|[,;:] |\bplease )(?:remember|note|keep in mind|bear in mind|don['’]?t forget)\b",
    r"\b(?:only (?:ever|use|touch|change|edit|write|answer|reply|run|commit|push|deploy|read)"
    r"|use only|no longer use)\b",
)
_GERMAN: Final = (
    r"\b(?:niemals|immer(?! (?:noch|wieder))|stets|ausschließlich|keinesfalls|auf keinen fall|unter keinen umständen"
    r"|ab (?:jetzt|sofort|nun)|künftig|in zukunft|grundsätzlich|zwingend|verboten|vermeide|bevorzuge|nur noch"
    r"|(?<!ich )(?:musst?|müssen|müsst)|d(?:arf|arfst|ürfen|ürft) (?:\w+ ){0,4}(?:nicht|nie|niemals|nur|kein\w*)"
    r"|soll(?:st|en|t)? (?:\w+ ){0,4}(?:nicht|immer|nie|nur)|denke? daran|merke? dir|vergiss nicht|achte darauf)\b",
    r"^(?:bitte )?(?:verwende|nutze|benutze|nimm|ändere?|lösche?|schreibe?|committe|pushe|lass|mache?|fasse?|rühre?"
    r"|starte|installiere|füge?|frage?|antworte|behalte|halte)\b.{0,200}\b(?:nicht|nie|kein\w*|nur|auf|an)\b",
    r"^bitte (?:nicht|nie|kein\w*|nur)\b",
)
_FRENCH: Final = (
    r"\b(?:toujours(?! pas)|jamais|uniquement|exclusivement|désormais|dorénavant|à partir de maintenant|il (?:ne )?faut"
    r"|(?:tu|vous|on|il|elle|code|tests?) (?:ne )?(?:dois|doit|devez|doivent)|interdit\w*|obligatoires?|en aucun cas"
    r"|sous aucun prétexte|préfère[sz]?|préférez|évite[sz]?|rappelle-toi|rappelez-vous|souviens-toi|souvenez-vous"
    r"|n['’]oublie[sz]? pas|assure-toi|assurez-vous)\b",
    r"^(?:s['’]il (?:te|vous) pla[iî]t,? )?(?:ne |n['’])\w+ (?:\w+ ){0,2}(?:pas|jamais|plus|que)\b|^ne pas\b",
    r"^(?:utilise|utilisez|emploie|employez) (?:\w+ ){0,6}(?:seulement|que)\b",
)
_SPANISH: Final = (
    r"\b(?:nunca|jamás|siempre|únicamente|solamente|exclusivamente|de ahora en adelante|a partir de ahora|deb(?:e|es|en"
    r"|erás?|erán)|tien(?:e|es|en) que|hay que|prohibid[oa]s?|obligatori[oa]s?|en ningún caso"
    r"|bajo ninguna circunstancia|prefiero|prefiere|evita|recuerda|no olvides|asegúrate"
    r"|(?:usa|utiliza) (?:solo|sólo)|(?:solo|sólo) (?:usa|utiliza))\b",
    r"^(?:por favor,? )?no (?!tienes|puedes|sabes|quieres|eres|estas|estás|vas)(?:\w+[ea]s|use|utilice|toque|modifique"
    r"|borre|cambie|escriba)\b",
)
_PORTUGUESE: Final = (
    r"\b(?:nunca|jamais|sempre|somente|apenas|exclusivamente|de agora em diante|a partir de agora"
    r"|dev(?:e|em|es|erá|erão)|tem que|é preciso|proibid[oa]s?|obrigatóri[oa]s?|em hipótese alguma|de jeito nenhum"
    r"|prefiro|prefira|evite|lembre-se|lembra-te|não se esqueça|não esqueça|certifique-se|use só)\b",
    r"^(?:por favor,? )?não (?:use|uses|mexa|apague|altere|mude|faça|toque|escreva|modifique|crie|remova|execute|rode"
    r"|envie|delete|responda|adicione|instale|edite)\b",
)
_ITALIAN: Final = (
    r"\b(?:mai|sempre|soltanto|solamente|esclusivamente|unicamente|d['’]ora in (?:poi|avanti)|da (?:ora|adesso) in poi"
    r"|dev(?:i|e|ono)|bisogna|occorre|vietat[oaie]|proibit[oaie]|obbligatori[oa]|in nessun caso|per nessun motivo"
    r"|preferisco|preferisci|evita(?:re)?|ricorda(?:ti)?|non dimenticare|assicurati|usa solo)\b",
    r"^(?:per favore,? )?non \w+(?:are|ere|ire|arlo|erlo|irlo|arla|arli)\b",
)
_OTHERS: Final = (
    r"\b(?:altijd|nooit|moet(?:en)?|voortaan|zawsze|nigdy|musi(?:sz)?|nie wolno|her zaman|asla|mutlaka|luôn|phải"
    r"|всегда|никогда|нельзя|обязательно|долж[а-я]{1,6}|запрещ[а-я]{1,6}|впредь|отныне)\b",
)
_UNCASED: Final = (r"반드시|절대|항상|하지\s?마|금지|해야|앞으로|يجب|دائم|أبدا|ممنوع|لا تستخدم",)
_CHINESE: Final = (
    r"必须|必須|不要|不准|不许|不許|不允许|不可以|禁止|严禁|嚴禁|务必|務必|一定要|总是|總是|始终|始終|永远|永遠|绝不|絕不|绝对不"
    r"|不得|(?<![我还還])不能|切勿|请勿|請勿|只能|只用|只使用|只允许|(?:从|從)现在(?:开始|起)|從現在(?:開始|起)|今后|今後"
    r"|以后(?:都|请|要|不)|记住|記住|记得|記得|优先|優先|避免|别再?[用改动删]",
)
_JAPANESE: Final = (
    r"必ず|絶対|決して|しないで|わないで|さないで|かないで|らないで|するな|(?:する|しない|すること|ない)こと[。！]?$"
    r"|てはいけ|てはなら|なければなら|常に|これからは|今後は?|(?:だけ|のみ)を?(?:使|用い)|優先|覚えて|忘れない"
    r"|ようにして|べき",
)
_CASED: Final = (*_ENGLISH, *_GERMAN, *_FRENCH, *_SPANISH, *_PORTUGUESE, *_ITALIAN, *_OTHERS)
# Sorted by where they can begin, and in small letters as the sentences are then: most sentences are not rules, and are
# passed over several times faster so.
_AT_START: Final = LazyPattern("|".join(each for each in _CASED if each.startswith("^")).lower())
_AT_WORD: Final = LazyPattern(
    lambda: rf"\b(?=\w)(?:{join_by_first_letter(each[2:].lower() for each in _CASED if each.startswith(_WORD))})"
)
_AT_STOP: Final = LazyPattern("|".join(each for each in _CASED if not each.startswith(("^", _WORD))).lower())
_STOP_WORDS: Final = ("never ", "always ", "do not ", "don't ", "don’t ", "dont ", "remember", "note", "in mind")
"""Each sentence that `_AT_STOP` finds contains one of these, and looking for them is ten times as fast."""
_WITHOUT_WORDS: Final = LazyPattern("|".join((*_UNCASED, *_CHINESE, *_JAPANESE)))
# A statement about what happens, not a rule.
_TOLD: Final = LazyPattern(
    r"^(?:and |but |so |because |since )?(?:I|it|he|she|they|this|that|there|nothing|nobody)\b(?:['’]\w+)? "
    r"(?:\w+ ){0,3}(?:always|never|must (?:have|be)|don['’]t|do not)\b(?! (?:want|use|touch|push|commit|change|accept))"
    r"|^(?:I|we) (?:must|have to|need to|had to|should)\b|^don['’]?t (?:worry|bother)\b|^never ?mind\b"
    r"|^(?:ich|es|er|sie|das) \w+ (?:immer|nie|niemals)\b|^(?:je|ça|il|elle) n",
    re.IGNORECASE,
)
_POLITE: Final = LazyPattern(
    r"^(?:can|could|would|will) you (?:please )?(?:always|never|only|not|make sure|stop|avoid|from now on)\b",
    re.IGNORECASE,
)
_HEADING: Final = LazyPattern(
    r"^[#*\s]*(?:[\w'’-]+ ){0,4}(?:rules?|constraints?|requirements?|guidelines?|conventions?|preferences"
    r"|regeln|vorgaben|règles|contraintes|consignes|reglas|normas|restricciones|regras|restrições|regole|vincoli|правила)"
    r"(?: [\w'’-]+){0,5}[:：*\s]*$|^[#*\s]*.{0,12}(?:规则|规范|要求|约束|規則|ルール|制約|규칙)[:：*\s]*$",
    re.IGNORECASE,
)
_QUOTED: Final = LazyPattern(r'"[^"]*"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|「[^」]*」|『[^』]*』')
_BREAK: Final = LazyPattern(r"(?:[.!?]+[\"'”’)\]]*(?=\s))|[。！？]+[」』”]*")
_SHORT: Final = frozenset(
    "e.g i.e etc vs cf approx no nr z.b bzw usw ca d.h p.ex ex p.ej dr mr mrs sr sra st inc resp incl min max".split()
)
_SENTENCE_FEW: Final = 4


def rules_of(message: Message) -> list[str]:
    """The distinct rules of a user message, in order, word for word. Those in a handoff were typed elsewhere."""
    gives_rules = is_user_request(message) or message.kind == HANDOFF
    return [*_RULES_BY_TEXT[rule_text(message)]] if gives_rules else []


def find_rules(text: str) -> list[str]:
    """Return the sentences of a text that state a rule, without regard to the author."""
    rules: dict[str, None] = {}
    listed = False
    for line in text.split("\n"):
        item = LIST_ITEM.match(line)
        item_text = line[item.end() :].strip() if item else line.strip()
        if listed and item and _SENTENCE_FEW <= len(item_text) <= MAX_RULE_CHARS:
            rules.setdefault(item_text)
            continue
        listed = (listed and not item_text) or (
            not item and len(item_text) <= 80 and _HEADING.match(item_text) is not None
        )
        plain = _QUOTED.sub(lambda quotation: "_" * len(quotation[0]), item_text)
        for start, end in _sentences(plain):
            if _is_rule(plain[start:end]):
                rules.setdefault(item_text[start:end])
    return list(rules)[:MAX_RULES_PER_MESSAGE]


_RULES_BY_TEXT: Final = BoundedMemo(find_rules, longest=4_000, most=2_000)
"""A message that leaves the view is looked at several times: by the check for losses, by the fold, by the ledger."""


def _is_rule(sentence: str) -> bool:
    if not _SENTENCE_FEW <= len(sentence) <= MAX_RULE_CHARS:
        return False
    if sentence.rstrip("\"'”’)").endswith(("?", "？")):
        return _POLITE.match(sentence) is not None
    return _lays_down(sentence) and _TOLD.match(sentence) is None


def _lays_down(sentence: str) -> bool:
    low = sentence.lower()
    if _AT_START.match(low) or _AT_WORD.search(low):
        return True
    if any(words in low for words in _STOP_WORDS) and _AT_STOP.search(low):
        return True
    return not sentence.isascii() and _WITHOUT_WORDS.search(sentence) is not None


def _sentences(line: str) -> list[tuple[int, int]]:
    """The start and end of each sentence of a line. A full stop after an abbreviation ends none."""
    ends: list[int] = []
    start = 0
    for end in _BREAK.finditer(line):
        if line[end.start()] == "." and line[start : end.start()].rpartition(" ")[2].lower().lstrip("(") in _SHORT:
            continue
        start = end.end()
        ends.append(start)
    places = [_trimmed(line, start, end) for start, end in pairwise([0, *ends, len(line)])]
    return [(start, end) for start, end in places if start < end]


def _trimmed(line: str, start: int, end: int) -> tuple[int, int]:
    """The same range without blanks at its ends."""
    text = line[start:end]
    return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
