"""The error table: what a provider says, and the kind of error it means. `rows` explains the format of the rows."""

import re
from collections.abc import Container, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.models.errors.rows import EARLY_PATTERNS, NON_LENGTH_STATUSES, PATTERN_WORDS, ErrorKind, ErrorPattern

WRAPPER_ALONE: Final = ErrorPattern(
    "server",
    "a gateway says that the provider failed, and nothing else",
    r"^(?:\d{3} |error from provider(?: \([^)]{0,40}\))?: )*(?:upstream request failed|provider returned error)\W*$",
)
_DECISIVE_STATUSES: Final = frozenset(
    {400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 422, 429, 431, 451, 499, 500, 502, 503, 504, 529}
)
"""Statuses that say more than a single word. Without one, a word about money or about a key is better than nothing."""
ERROR_TABLE: Final = (
    *EARLY_PATTERNS,
    ErrorPattern(
        "overflow",
        "codes",
        r"""context_?(?:length|window|size|limit)_?\w*(?:exceed|error|overflow|too_long)\w*
        (?:prompt|input|context|request|(?<!max_)(?<!new_)(?<!output_)(?<!completion_)tokens?)_(?:is_)?too_(?:long|many_tokens|large)
        tokens?_(?:limit|count)_(?:reached|exceeded)
        content_length_exceeds\w*|model_?max_?length|input_?length_?error
        ^1261$""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "overflow",
        "the context and a word of too much",
        r"""<context><60>(?:exceed|overflow|too long|reached|is full|has been|not enough|you requested)
        <over><80>\bcontext\b(?! (?:deadline|cancel))
        reached (?:the )?<context>
        tokens? context requested|context the overflows|context overflow
        (?:>=?|exceed\w*|than|fit\w*)<20>\bn_ctx\b|\bn_ctx too small
        context shift is disabled
        free space in the kv cache|kv cache is full|physical batch size
        (?:上下文|输入|文本|内容|prompt|tokens?).{0,16}(?:超|过长|上限)|(?:超|大于).{0,20}(?:上下文|最大长度|长度限制|token)""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "overflow",
        "the largest that is taken is named",
        r"""max(?:imum)?(?: \w+)? (?:context|prompt|sequence|model|input|total|message)s?(?: tokens?)?[ _-]<length>
        max_(?:model|seq|seq_len|sequence|prompt|input|context|position|total)_?(?:len|length|tokens|embeddings)?\b
        max(?:imum)? (?:number of )?(?:input |prompt |context )?tokens? (?:allowed|limit|for this model|count|supported)
        \b(?:configured|model'?s?|supported) (?:max(?:imum)? )?(?:context|token|input|prompt)s?[ _-]<length>
        range of (?:input|total|prompt) length|max(?:imum)? input characters
        \b(?:prompt|inputs?|messages?|conversation)\b<40>at most [\d,]+ (?:\w+ )?tokens
        tokens?\b<40>(?:allows|accepts|takes|holds) only [\d,]+
        max(?:imum)? tokens of [\d,]+ exceeded
        (?:context|model'?s?) window (?:is|of) [\d,]+""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "overflow",
        "too long, said of what is sent",
        r"""\b<input>s?\b(?:[^\w\n]++\w++){0,9}?[^\w\n]++too (?:long|many tokens)
        \b(?:prompt|input|messages|conversation|context|history|text)s?\b(?: \w+){0,4} too (?:large|big)\b
        request too large\b(?!<80>(?:per|bytes|mb)\b)<80>\btokens\b
        (?:combined|total|summed) (?:size|length) of (?:the )?(?:prompt|input|messages)<60><over>
        too (?:long|large|big) (?:for|to fit)(?: \S+){0,3} (?:model|window|context)
        \b(?:prompt|input|messages|conversation|context|history|text)s?\b<20>(?<!must be )longer than
        \b(?:prompt|input|messages|conversation|context|history)s?\b<20>(?:no longer|not|n't|cannot|can't) fits?\b""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "overflow",
        "tokens or a length over a limit",
        r"""\b(?:tokens?(?! endpoint)|<input>[ _]length|sequence[ _]length)\b<60><over><60>(?:max|limit|allow|model|\d)
        <over><50>(?:tokens? (?:limit|allowed|maximum|count)|(?:token|length) limit|number of (?:input )?tokens)
        (?:exceed\w*|beyond|longer than|more than)<50>max(?:imum)?(?: allowed| input| prompt)* (?:length|tokens?)
        \b(?:prompt|input|messages|conversation|context|history|text|content)s? exceeds? (?:the )?(?:max|limit|length)
        tokens? limit|prompt token count of|token count<20>limit
        tokens?\w* [\d,]+ ?>=? ?\w*(?:context|ctx|max|limit|seq)""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "overflow",
        "how to shrink it",
        r"""(?:reduce|shorten|decrease|truncate|trim|shorter)\b<40>\b(?:prompt|messages?|inputs?|conversation|history|text)\b
        too many (?:input |prompt |total |request )?tokens
        only supports? up to [\d,]+
        `?inputs`? (?:must have less|tokens \+)
        maxlength: [\d,]+, actual|too many total text bytes
        requested [\d,]+ tokens?<20>\bmax|max_tokens_per_request
        \d tokens?\b<60>\bcontext (?:limit|window|length|size)\b<40>\b\d{4,}
        (?:reduce|compact|shorten|trim)\b<20>\brequest context
        (?<!sent )too many messages(?!<30>wait)
        (?:history|conversation|chat|thread|messages)\b<30>exceed\w*<30>\bmessages?\b""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "overflow",
        "length, in other languages",
        r"""контекст<50>превыш|превыш<50>(?:контекст|токен)
        コンテキスト.{0,20}超|トークン.{0,20}超
        컨텍스트.{0,20}초과|토큰.{0,20}초과
        kontext<40>(?:überschr|zu (?:lang|groß))
        \bcontext[eo]\b<40>(?:dépass|excéd|exced|super)|(?:dépass|excéd|exced|super)<50>\bcontext[eo]\b""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "bytes",
        "the body, not the tokens",
        r"(?:payload|entity|body|request|content|message|upload)(?: body| size| payload)*(?: is| was)? too large",
    ),
    ErrorPattern(
        "rate_limit",
        "exhausted, without saying of what",
        r"""resource[_ ]?(?:has been )?exhausted
        quota (?:has been )?exceeded(?!<20>(?:plan|billing))
        ratelimiterror""",
        frozenset({500, 502, 503, 504}),
    ),
    ErrorPattern(
        "billing",
        "OpenAI's words for no money; Google's have gone above",
        r"""exceeded your current quota|plan and billing
        plan, upgrade to""",
    ),
    ErrorPattern(
        "model",
        "no such model here",
        r"""model[_ ]?not[_ ]?(?:found|exist|supported|available|loaded)
        <model><120>(?:does not exist|doesn't exist|not (?:be )?found|not exist|isn't supported)
        <model><120>is not (?:supported|available|valid|a valid)
        <model><120>(?:decommissioned|deprecated|identifier is invalid|unavailable for|no longer)
        no longer available<20>\bswitch to\b|passed in model=none\b|no '?model_name'?\b
        (?:unknown|invalid|unsupported|incorrect|wrong|no such|no|a valid|specified) models?\b(?! parameter)
        ^\W*model\W{0,3}(?: field)? ?(?:is )?(?:required|missing)|missing<20>\bmodel\b|model (?:name|id) is required
        \bprovider (?:is |was )?not (?:provided|specified|found|configured|supported)
        models? (?:is )?(?:loaded|unloaded|identifier)|no(?: \w+)? models? selected
        model\b<40>not in the\b|select (?:a|another) model|<failed> find<12>\bmodel\b
        no such (?:deployment|engine)|(?:unknown|invalid) (?:engine|deployment)
        access to (?:the )?model\b|not allowed to use<20>model
        no endpoints? found|\bmodels/\S+ is not found|deploymentnotfound|no healthy deployments?
        no route for|(?:unknown|no|available) provider for|model\b<60>(?:not accessible|is disabled)
        unsupported_api_for_model|(?:resource|entity)[_ ]?not[_ ]?found
        no (?:such |matching )?(?:models?|deployment|endpoint|route|handler)s?\b<40>(?:found|match|configured)
        try pulling|pull(?:ing)? (?:it|the model)|model\b<60>(?:must|needs to|has to) be \w+ed\b
        (?:\(endpoint\)|page|route|^|["'|:] ?) ?["']?not ?found\b|(?:invalid|unknown) url\b|cannot (?:get|post) /
        (?:model|deployment)\b<120>(?:retired|sunset|end of life|not (?:currently )?(?:hosted|served|deployed|enabled))
        模型.{0,10}(?:不存在|未开通|下线|不可用|错误)|(?:无效|未知)的?模型
        not_found_error""",
    ),
    ErrorPattern(
        "auth",
        "who asks is not known or not allowed",
        r"""(?:invalid|incorrect|missing|expired|wrong|\bno|valid)<12> (?:x-)?<credential>\w*\b
        api[_ -]?key<40>(?:invalid|n[o']t (?:valid|exist|found)|incorrect|expired|missing|required|disabled|provide)
        authenticat(?:e|ion)\b|unauthori[sz]ed|unauthenticated|(?:not|only) authorized|\bforbidden
        permission[_ ]?(?:error|denied)|access ?denied
        security token|(?:session|credentials?|token)\b<20>(?:expired|revoked)|\bjwt\b
        please (?:log|sign) ?in\b
        organization (?:has been disabled|must be verified)|licen[sc]e\b<20>(?:valid|required)|token data
        account (?:\w+ ){0,3}(?:disabled|deactivated|banned|on hold|locked|inactive|suspended|closed|not exist)\b
        (?:unsupported|invalid)(?: \w+)? token type
        (?:country|region|territory|location)<40>not (?:supported|available|allowed)
        (?:not |un)(?:available|supported|allowed) in (?:your|this) (?:country|region|location)|geo-?(?:block|restrict)
        (?:<failed> (?:find|load|resolve|locate)|no|missing)\b<30>(?:\bsecret\b|credentials?|api[ _-]?key)
        (?:\b|_)key\b(?: \w+){0,5} (?:not (?:set|configured|allowed)|must be set|blocked|leaked|revoked|disabled)
        \bpermissions?\b|not (?:permitted|allowed|entitled) to\b|entitlement|(?:n't|not|no longer) have access
        re-?authenticat|(?:log|sign) ?in again|(?:refresh|access|bearer) token|invalid_grant|\boauth\b
        (?:unrecognizedclient|expiredtoken|invalidsignature|incompletesignature)|signature<30>not match
        credentials?(?:retrieval)?error|ip (?:address )?<30>(?:not allowed|blocked|denied)|allow-?list|white-?list
        api has not been used|service_disabled|not (?:logged|signed) in
        令牌|无权|未授权|鉴权|认证失败|密钥""",
    ),
    ErrorPattern(
        "invalid_history",
        "a place in the history is named, whatever is wrong with it",
        r"(?<![\w.])'?\"?(?:\w+request\.)?(?:messages?|input|contents)(?:\.\d+|\.?\[\d+\]|['\"\\]{1,3}, ?\d+\b)",
    ),
    ErrorPattern(
        "unknown",
        "a setting that this model does not take: neither the history nor the server",
        r"""extra inputs? (?:are|is) not permitted|extra_forbidden|additional properties are not allowed|not implemented
        schema violation|request schema|tool payload|malformed (?:input )?request|参数.{0,6}(?:错|无效|非法)
        \b(?:un(?:supported|known|recognized|expected)|invalid|illegal|incorrect)(?: \w+){0,2} <setting>
        <setting><60>(?:not (?:supported|permitted|allowed|recognized)|unsupported)|(?:set|used|given) at the same time
        does(?: not|n't) support(?: the)? (?:parameter|tools?|functions?|streaming|reasoning|thinking|system|json)\b""",
        frozenset({500, 502, 503, 504}),
    ),
    ErrorPattern(
        "server",
        "the provider's own trouble",
        r"""overloaded|capacity|high traffic|cuda error
        \bdegraded\b|cannot be invoked|under maintenance|cold start|warming up|scal(?:ing|ed) (?:up|to zero)
        <host><40>(?:unhealthy|not (?:yet )?ready|not available|is down|died|lost|restarting)
        no (?:healthy|available|ready)(?: \w+){0,2} <host>
        \bbusy\b|<engine><40>(?:fail\w*|died|dead\b|crash\w*|terminat\w+|stopped|exited|killed|not running)
        \bno_kv_space\b|health ?check|(?:provider|server)-side (?:issue|error|problem)
        engine ?(?:core)?(?: is)? ?dead|(?:loop|engine) has errored
        did(?: not|n't) (?:provide|return|produce|generate)\b|empty(?: or \w+)? (?:<reply>|completion|output)|load-error
        系统(?:繁忙|异常|错误)|服务.{0,6}(?:不可用|繁忙|维护|异常|错误)|负载.{0,6}饱和|内部错误|稍后.{0,2}试|无可用渠道
        internal[_ ](?:server[_ ])?error(?!\.algo)|server[_ ]error|server had an error
        \bunavailable\b|service_?unavailable\w*|bad gateway|gateway time-?out|no healthy upstream|a timeout occurred
        model\b<60>(?:is|still|currently) loading|model loading|loading model|technical (?:difficult|issue|problem)
        modelnotready|modelstreamerror|\bcrashed\b
        modeltimeout|is unable to process your request|failed to load<20>\bmodel\b
        model runner|runner process
        failed_generation|tool_use_failed
        ^internal$""",
    ),
    ErrorPattern(
        "transport",
        "the line, not the provider",
        r"""<line>\W?<30><broken>|apiconnectionerror|connection ?error|max retries exceeded
        <failed> (?:connect|reach|resolv|contact|communicat|establish|fetch(?!<60>\b[45]\d\d\b))\w*
        check your(?: \w+)? (?:network|internet|connection|vpn|proxy|firewall)
        no route to host|unreachable|unknownhost|hostname<12>not (?:be )?found|\boffline\b|abnormal closure
        getaddrinfo|cancell?ederror|closedresource|^\W*(?:typeerror: )?load failed|service not known
        nodename nor|\bdns\b|nxdomain|no such host|dial tcp
        \b(?:ssl|tls)\b|sslerror|handshake|\bx509\b|self[- ]signed|\beof\b|\berrno\b|net::err
        \beproto\b|self_signed|verify_leaf|_cert|tls_|\bepipe\b|first token
        (?:read|write|connect|pool|protocol|encoding|connector\w*|\bos|clientos|payload|incompleteread)(?:error|timeout)\b
        proxyerror|disconnected|hung up|\baborted\b|aborterror|(?:request|operation) (?:was )?(?:cancell?ed|interrupted)
        \bstream\b<30>(?:interrupt|abort|terminat|\bcut\b|stall|timed|idle|incomplete|reset\b|truncat|without|before)
        (?:invalid|malformed|unreadable|incomplete|truncated|corrupt\w*|unexpected end of)(?: \w+){0,2} <reply>
        econn\w+|etimedout|socket hang up|broken pipe|remote end closed
        timed? ?out|deadline|context cancell?ed|took too long|n't respond|not respond|no (?:data|response) received
        premature[ _]close|connection (?:was|is) (?:\w+ )?(?:closed|aborted)|forcibly closed|wsa(?:send|recv)\b
        stream has been cancell?ed|^terminated$
        fetch failed|error (?:sending request|decoding response)|超时|连接.{0,4}(?:失败|中断)|网络.{0,4}(?:异常|错误)
        other side closed|und_err\w*|err_http2\w*|\bgoaway\b|connection (?:lost|dropped|terminated)
        enotfound|eai_again|name resolution|certificate|not connected|incompletemessage
        server disconnected|peer closed|\b(?:web)?socket\b<90>(?:closed|failed|connection limit)
        incomplete (?:chunked )?read|stream (?:ended|closed|disconnected)|unexpected end of (?:json|file)""",
    ),
    ErrorPattern(
        "rate_limit",
        "a limit, without saying of what",
        r"""\bquotas?\b|quotaexceeded|limits? (?:has been |have been |was |is )?(?:reached|exceeded|hit)|cool-?down
        (?:reached|exceeded|hit|over)(?: \w+){1,4} limits?\b
        sent too many|(?:try again|retry|wait)(?: in| after| for| at)? ~?\d""",
        frozenset({400, 404, 413, 422, 500, 502, 503}),
    ),
    ErrorPattern(
        "server",
        "a gateway names the provider, or the text says only that it failed; a status that says more decides",
        r"""upstream|provider returned error|internal ?(?:server)? ?(?:error|exception)(?!\.algo)|modelerror
        something went wrong
        (?:unexpected|unknown|internal) (?:error|response)|an error (?:has |was )?(?:occur|encount)(?!\w* \()
        temporar(?:y|ily)(?! failure in name)|(?:please|to|and) (?:re)?try\b|try (?:again|later)\b
        error (?:occurred )?(?:while|during) processing|(?:retry|try) your request\b|\boutage\b
        exit(?:ed)? (?:status|code|with)|signal: |segmentation|core dumped|nonetype|keyerror|indexerror
        (?:execution|prediction|decode|inference|engine)\w* (?:failed|error)
        fail\w* to (?:allocate|generate|process|complete|handle|run|execute|get (?:a )?response)|\btransient\b
        (?:request|call|completion|generation|operation)s? failed|encountered an? (?:issue|error|exception|problem)""",
        frozenset({400, 401, 403, 404, 422}),
    ),
    WRAPPER_ALONE,
    ErrorPattern(
        "billing",
        "a word about money",
        r"\b(?:budget|balance|funds|purchase|billing|payments?|invoices?|subscri\w+|credits|upgrade your plan)\b",
        _DECISIVE_STATUSES,
    ),
    ErrorPattern(
        "auth",
        "a word about keys and rights, and nothing else",
        r"\b(?:auth\w*|credentials?|api.?keys?|(?:log|sign)(?:ged)?[ -]?in|access|denied|expired|account|workspace)\b",
        _DECISIVE_STATUSES,
    ),
    ErrorPattern(
        "transport",
        "a word about the line, and nothing else",
        r"\b(?:connect\w*|network|socket|streams?|streaming|tls|proxy|hosts?|fetch\w*|closed)\b",
        _DECISIVE_STATUSES,
    ),
    ErrorPattern(
        "server",
        "a word about a failure, and nothing else",
        r"\b(?:fail(?:ed|ure|s)?|unable|could(?: not|n't)|cannot|sorry|oops|problem|trouble|try (?:again|\w+ing))\b",
        _DECISIVE_STATUSES,
    ),
)

STATUS_KINDS: Final[Mapping[int, ErrorKind]] = MappingProxyType(
    {
        401: "auth",
        402: "billing",
        403: "auth",
        404: "model",
        407: "auth",
        408: "transport",
        413: "bytes",
        429: "rate_limit",
        451: "refused",
        499: "transport",
    }
)
"""The kind of a status when the words match no row. Above 499 it is `server`, otherwise `unknown`."""

STOP_KINDS: Final[Mapping[str, ErrorKind]] = MappingProxyType(
    {
        "model_context_window_exceeded": "overflow",
        "context_window_exceeded": "overflow",
        "context_length_exceeded": "overflow",
        "error": "server",
        "network_error": "server",
        "insufficient_system_resource": "server",
    }
)
"""Stop reasons that report a failure. An answer that was merely cut or refused is not a failure."""

_WORD_MARK: Final = LazyPattern(r"<(\w+)>")
_ENDPOINT: Final = LazyPattern(
    r"(?:https?|wss?)://[^\s\"'<>]{0,200}?/(?:v\d|api|\w+-api|openai)\b[^\s\"'<>,;]{0,200}(?<![:.)])"
)
"""The address of the request, in a client's words. A name in it ("gemini-pro-vision") says nothing about the fault."""


def match_error(lines: Iterable[str], status: int | None) -> ErrorPattern | None:
    """Return the first row, in the order of the table, that matches any of the lines."""
    text_lines = [_ENDPOINT.sub("(endpoint)", line.replace("’", "'").replace("\\n", " ")) for line in lines]
    for row in ERROR_TABLE:
        if status not in row.excluded_statuses and any(map(compile_patterns(row.patterns).search, text_lines)):
            return row
    return None


def list_phrases(line: str, kinds: Container[ErrorKind]) -> list[str]:
    """The first text that matches each row of these kinds."""
    rows = (compile_patterns(row.patterns).search(line) for row in ERROR_TABLE if row.kind in kinds)
    return [match[0] for match in rows if match]


@cache
def compile_patterns(ways: str) -> re.Pattern[str]:
    return re.compile("|".join(_WORD_MARK.sub(_spell_word, way.strip()) for way in ways.splitlines()), re.IGNORECASE)


def _spell_word(mark: re.Match[str]) -> str:
    name = mark[1]
    return rf"[^\n]{{0,{name}}}" if name.isdigit() else PATTERN_WORDS[name]
