"""The grammar of the error table, and the rows that are tried before any that may shrink the view.

The order matters. A text often mentions two things (a rate limit mentions tokens, a broken history "must" and
"exceeds"), so texts that must not be classified as overflow come first: shrinking the view is the only reaction that
loses something. Each row is compared with the provider's sentences and codes, line by line, ignoring case.

Every line of a row is one regular expression, in which `<40>` stands for a gap of up to 40 characters and `<input>`,
`<context>`, `<over>`, `<out>` for the words below. The numbers that may be read are in `numbers`. The last rows of the
table are single words, for errors without a status of which nothing else is known; none of them is about length.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

ErrorKind = Literal[
    "overflow",
    "rate_bucket",
    "rate_limit",
    "output_cap",
    "bytes",
    "media",
    "invalid_history",
    "reasoning_state",
    "billing",
    "auth",
    "model",
    "transport",
    "excess",
    "server",
    "refused",
    "unknown",
]
ERROR_KINDS: Final[tuple[ErrorKind, ...]] = get_args(ErrorKind)


class ErrorPattern(NamedTuple):
    kind: ErrorKind
    description: str
    patterns: str
    excluded_statuses: frozenset[int] = frozenset()  # statuses that override these words


PATTERN_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input": r"(?:prompt|inputs?|messages?|conversation|context|history|chat|query|text|content|request)",
        "context": r"context[ _-]?(?:length|window|size|limit|budget|capacity)",
        "over": r"(?:(?:exceed|overflow|surpass)\w{0,20}|(?:longer|larger|greater|bigger|more) than|beyond|over(?=\s)"
        r"|above (?=the |its )|(?:ran|run|running) out of"
        r"|does(?: not|n't) fit|too (?:long|large|big|many)(?: to fit|[^\n]{0,20} for)?|(?<!-)>=?)",
        "out": r"max[_ ]?(?:imum[_ ])?(?:completion[_ ]|output[_ ]|new[_ ]|generation[_ ])?tokens?",
        "length": r"(?:length|window|size|limit|count|tokens?)",
        "host": r"\b(?:engine|backend|worker|replica|instance|node|pod|cluster|server|upstream|channel|account)s?\b",
        "engine": r"\b(?:inference|generation|runner|engine|worker|backend(?!-)|replica|gpu|cuda|kernel|pod)\b",
        "line": r"\b(?:connect(?:ion|ing)?|network|(?:web)?socket|wss?|tunnel|transport)s?\b",
        "broken": r"(?:error|fail\w*|reset|refused|clos(?:ed|ing|ure)|abort\w*|tim(?:ed|e) ?out|lost|drop\w*"
        r"|terminat\w+|broken|interrupt\w*|disconnect\w*|unreachable|cut\b|stall\w*|ended|unexpected\w*|limit)",
        "failed": r"(?:unable to|fail\w*(?: to)?|could(?: not|n't)|cannot|can't|error(?: while)?|trouble)",
        "reply": r"(?:response|stream|chunk|events?|sse|reply|answer|body)\b",
        "model": r"(?:model|deployment|engine)\b(?!\.\w)",
        "credential": r"(?:api[ _-]?key|credential|token|auth(?!ority))",
        "setting": r"(?:parameter|argument|field|property|option|keyword|schema)s?\b",
        "size": r"(?:\d[\d,.]* ?(?:bytes|[kmg]i?b)\b|\bbytes\b)",
        "body": r"\b(?:request|payload|body|entity|frame|packet|websocket|message|upload|inline|files?|attachments?)\b",
        "media": r"(?<![a-z])(?:images?|image_url|photo|picture|pdfs?|document pages?|audio|video|media|vision(?! api)"
        r"|multi-?modal)",
    }
)
NON_LENGTH_STATUSES: Final = frozenset({401, 402, 403, 407})

EARLY_PATTERNS: Final = (
    ErrorPattern(
        "rate_bucket",
        "one request is larger than all tokens of a minute; if the text has both numbers, they are compared later",
        r"""request too large[^\n]*(?:tokens? per|\btp[md]\b)
        \blimit:? [\d,]+, (?:used:? [\d,]+, )?requested:? [\d,]+""",
    ),
    ErrorPattern(
        "billing",
        "prepaid money is gone, said with a rate limit's code",
        r"(?:credits?|balance)<30>(?:depleted|used up|exhausted)",
    ),
    ErrorPattern(
        "rate_limit",
        "Google's quotas speak of billing and of input tokens",
        r"""quota exceeded for
        generate_(?:content|requests)_\w+
        add \d+ credits to unlock|hit your usage limit|weekly(?:/monthly)? limit
        per(?:model|project|user|day|minute)\w*per(?:day|minute|project|model)""",
    ),
    ErrorPattern(
        "auth",
        "a firewall's page instead of an answer",
        r"""you have been blocked|attention required!|enable javascript and cookies|just a moment\.\.\.|\bcaptcha\b""",
    ),
    ErrorPattern(
        "billing",
        "no money",
        r"""\b(?:insufficient_quota|exceeded_current_quota\w*|billing_\w+|payment_required|arrearage)\b
        \b(?:insufficient_(?:balance|credits?|funds)|invalid_payment_instrument|credit_limit\w*)\b
        insufficient (?:account )?(?:balance|credits?|funds|quota)
        balance (?:is )?(?:too low|not enough|insufficient|\$?-?0(?:\.0+)?\b(?!\.?\d))
        (?:doesn't|does not|don't|do not) have (?:any|enough|sufficient) credits?
        (?:more|out of|add|purchase|buy|available|included)(?: \w+)? credits?\b
        settings/credits|credits? required|requires?(?: \w+){0,2} credits\b
        payment required|too many requests<90>your plan and billing
        in good standing
        past invoices?|past[ -]due|in arrears|out of (?:quota|funds|money|balance)
        \bcredits?\b<40>(?:ran out|run out|zero|expired|not enough|too low|exceeded|no longer)
        (?:out of|no|any|all|without|zero|lack\w*|enough|sufficient|low|negative) (?:\w+ )?(?:credits?|funds|balance)\b
        (?:ran|run) out of(?: \w+){0,2} (?:credits?|funds|balance|quota)
        payment (?:method|is required|failed|declined)|paid (?:plan|tier|account|subscription|users?)\b
        subscription<30>(?:expired|lapsed|ended|not (?:found|active)|needed|paused)|need an?(?: \w+){0,2} subscription
        overdue
        recharge
        (?:requires?|needs?) an? [\w ]{0,20}subscription
        no quota\b|top[ -]?up\b|trial (?:has )?(?:ended|expired)|subscription (?:is )?(?:inactive|required|cancell?ed)
        余额.{0,4}不足|欠费|充值|额度.{0,4}(?:不足|用尽|用完|耗尽)|套餐.{0,8}(?:过期|到期|不支持)""",
    ),
    ErrorPattern(
        "billing",
        "a limit that the owner of the account set or pays for",
        r"""(?:spend(?:ing)?|billing(?: hard)?|credit|monthly(?: usage| budget)?|budget)[ _]?(?:limit|cap\b)
        reached your specified api usage limits
        (?:budget|allowance) (?:has been |was |is )?(?:exceeded|reached|exhausted|spent|used up)
        exceeded<30>(?:allowance|budget|monthly)
        billing<20>(?:enabled|not active|inactive)|(?:enable|set ?up|add) billing
        extra usage
        long context beta is not
        free tier<40>exhausted|freetieronly|hit your<30>budget
        not available (?:with|on|in) (?:the |your )?(?:[\w-]+ ){0,3}plan\b
        \b(?:plan|package|subscription|license)\b<10>expired|\bplan\b<20>run out
        key limit exceeded|\bplan (?:does )?not (?:support|include|cover)
        setlimitexceeded|service has been paused""",
    ),
    ErrorPattern(
        "output_cap",
        "the answer is longer than it may be",
        r"""\b(?:response|answer|reply|output|completion|generation)\b<20><over><40>\b(?:output|completion) tokens?""",
    ),
    ErrorPattern(
        "overflow",
        "no room is left in the context",
        r"""\b(?:not enough|no|insufficient|little|without) (?:\w+ )?context (?:available|left|remaining|space)\b
        \bcontext ?overflow(?:ed|error)\b|\b(?:prompt|input|context) (?:length|size) (?:is |was )?exceeded\b""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "overflow",
        "length, said with 403 by one who means no key by it",
        r"""(?:input|prompt) tokens?(?: count)?<60>context (?:length|window) of the model
        \b(?:prompt|input|messages|conversation|context) (?:is |are )?too long: ?\d
        \d tokens?\b<20>(?:>=?|exceed\w*|(?:is |are )?(?:over|more than|above))<40>\b\d{4,}
        exceed\w*<30>\bcontext[ _-](?:length|window|limit|size)\b<40>\d{4,}
        ^(?:context_length_exceeded|context_window_exceeded|prompt_too_long)$""",
        frozenset({402, 429}),
    ),
    ErrorPattern(
        "overflow",
        "length, in words that speak of images too",
        r"""maximum model length
        too long to fit into the model
        multimodal prompt is too long
        tokens of image and text exceed""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "media",
        "an image, a document or a sound that is not taken",
        r"""<media><90>(?:exceed|too (?:large|big|many|small|long)|unsupported|isn't supported|invalid|corrupt)
        <media><90>(?:not (?:a )?(?:valid|support|allow|enabled|accessible|match)|does not|do not|could not|cannot)
        <media><90>(?:unable|failed|at most|maximum|larger than|only supported|must (?:be|start)|password|appears)
        (?:(?:not|n't) support(?:ed)?(?: for)?|unsupported|invalid|support)(?:\W++\w++){0,4}?\W++<media>\b
        (?:could not|cannot|unable to|failed to) (?:\w+)(?:\W++\w++){0,3}?\W++<media>\b
        (?:too (?:many|much)|(?:at most|maximum of|more than) \d+)(?:\W++\w++){0,3}?\W++<media>\b
        (?:missing|required)<20>(?:\W++\w++){0,3}?\W++<media>\b
        (?:bad|broken|duplicate|empty) <media>\b|\bdocument\b<60>(?:could not|not valid|unsupported|no pages)
        (?:more than|at most|maximum of) \d+ documents\b|duplicate document names
        unknown variant `?(?:image|image_url|input_audio|file)
        (?<!response )(?<!response)(?<!unexpected )mime ?type|\bfile\b<40>format is not supported|illegal base64
        content\.type ?参数非法
        (?:file|content|media|attachment)[ _]types?\b<40>(?:not supported|unsupported|not allowed)
        unsupported (?:file|attachment)\b|unsupported (?:media|content)\b(?! type)
        (?:source|base64)\.(?:media_type|data|url)\b
        (?:supported|allowed) values are\b<60>\b(?:image|video|audio)_url\b
        (?:\b(?:jpe?g|png|webp|heic)\b<60>support|support<40>\b(?:jpe?g|png|webp|heic)\b|support file inputs?)
        image_parse_error|invalid_(?:image|file)\w*|base64<20>invalid|invalid base64""",
        frozenset({415}),
    ),
    ErrorPattern(
        "refused",
        "a filter stood before the model",
        r"""content[_ -]?(?:filter|policy|moderation|management policy|safety)
        responsibleai
        data_?inspection_?failed
        inappropriate content
        content exists risk
        safety (?:system|filter|settings|reasons|policy)
        usage (?:policy|policies|guidelines)
        flagged
        considered high risk
        sensitive (?:content|information|words?)|new_sensitive
        guardrail|moderation|\b(?:harmful|unsafe|toxic)\b
        \bblocked\b<40>(?:filter|safety|polic|classifier|provider|reason)|(?:filter|safety|classifier)\w*<40>\bblocked
        refus\w+ to (?:answer|respond|reply)|declined to (?:answer|respond)
        ^(?:refusal|safety|recitation|blocklist|spii|image_safety)$
        violat<40>polic|(?:prompt|response|content|candidate|answer|output|completion)s?\b<30>\bblocked\b
        prohibited_content|blocked content|\bblock_?reason\b
        敏感|违规|审核|内容安全""",
    ),
    ErrorPattern(
        "server",
        "the memory of the machine, also where a shorter context is proposed",
        r"""\bmemory\b<60>(?:guard|ceiling|exceeded|insufficient|not enough|than is available|exhausted)
        (?:out of|insufficient|not enough|more(?: system)?|free) memory\b|\boom\b""",
    ),
    ErrorPattern(
        "server",
        "the model's own words could not be parsed; it may say it better at a second try",
        r"failed to parse input at pos|malformed[_ ]function",
    ),
    ErrorPattern(
        "reasoning_state",
        "signed thinking or a signed compaction was changed, moved or lost, or is not ours",
        r"""thinking`? or `?redacted_thinking|redacted_thinking
        thinking<20> block
        signature<40>(?:thinking|reasoning)
        thinking\.signature|signature: field required|invalid_signature
        thought[_ ]?signature
        reasoning_(?:content|details|text)
        compaction_(?:block_misplaced|signature_invalid|content_mismatch)
        `?compaction`? blocks?<40>(?:require|signature|allowed)
        input tag '?compaction|\.compaction\.
        encrypted[_ ]content
        of type '?reasoning|required '?reasoning'? item
        items?\b<30>'?\brs_\w*|items are not persisted
        input\[\d+\]<30>summary""",
    ),
    ErrorPattern(
        "overflow",
        "a server's template that found no request left after its own cutting",
        "no user query found in messages",
    ),
    ErrorPattern(
        "invalid_history",
        "calls and results do not pair",
        r"""tool_?(?:use|result|calls?)(?:_ids?)?\b
        tool(?:use|result) blocks?|toolconfig|tool use concurrency
        tool (?:call )?(?:id|result|output|message|response|arguments)s?\b
        function[_ ]?(?:calls?|response|output)\w*(?:\W+\w+){0,8}\W+(?:parts?|turn|not|missing|without|must|found)\b
        function[_ ]?(?:calls?|response|output)\w*(?:\W+\w+){0,8}\W+(?:match|equal|follow|immediately|after|responses)\b
        function call (?:output|turn)|no tool (?:call|output)|tool calls? must
        role '?\"?tool|tool role""",
    ),
    ErrorPattern(
        "invalid_history",
        "roles in a wrong order",
        r"""roles?<40>(?:alternat|not supported|unsupported|are supported|unexpected)|alternate between
        (?:unexpected|invalid|unknown|unsupported|valid|wrong|expected last) role
        must (?:start|end|begin) with (?:a |an )?"?(?:user|assistant|system|tool)
        (?:first|last|final)(?: \w+)? (?:message|role|content)<40>(?:must|should|cannot)
        (?:successive|consecutive|two or more|2 or more) (?:user|assistant)
        prefill(?! (?:\d+ )?tokens)
        multiturn requests|roles? must be (?:one of|either)|(?:unexpected|invalid) message\b|message role
        system message (?:must|should)
        jinja|chat template|raise_exception""",
    ),
    ErrorPattern(
        "invalid_history",
        "something that is empty or of a wrong form and must not be",
        r"""non-?empty|non-?whitespace
        (?:contents?|messages?|text|parts?) (?:is|are|(?:cannot|can't|must not|should not) be) (?:empty|null|blank)
        empty content|is blank\b
        at least one (?:parts?|message|content)
        contents? is not specified|'?content'? is required
        (?:messages|contents|input)'?:? (?:is |are )?(?:an )?(?:empty|required|missing)
        expected a string, got null|either content or tool|(?:content|messages) (?:must|should) be an? (?:string|array)
        (?:element|content|part|text)s? (?:per|in each|of each) message|each message must
        \b(?:messages|contents)\b<20>(?:illegal|must be an array|must exist)|provide a messages
        messages do not contain|未.{0,6}接收到.{0,4}(?:prompt|messages)
        arguments?\b<80>(?:json format|be json)""",
    ),
    ErrorPattern(
        "transport",
        "an answer that could not be read, or broke off in the middle",
        r"""unexpected token\W{1,4}<|looking for beginning of value|response(?: body)? (?:is )?(?:not |in)valid json
        stream id \d+; |transferencoding|payload is not complete|keepalive ping|ended prematurely
        validation errors? for \w*(?:completion|response)(?:chunk|stream\w*)?\b|unexpected mime ?type
        nghttp2|incomplete json|unterminated string|(?:chunk|sse|stream|event)s? parse error
        unexpected (?:token|character|end|non-whitespace)<60>\bjson\b
        json\.?(?:decode|parse)\w*error|expecting value: line|type ?validation ?(?:failed|error)|invalid ?response ?data
        ^(?!<200>(?:target type|request))<200>missing field `\w+` at line \d
        <failed> (?:pars|decod|deserial|read)\w*(?: \w+){0,3} <reply>|empty reply from server""",
        frozenset({400, 422}),
    ),
    ErrorPattern(
        "invalid_history",
        "what was sent is not well-formed",
        r"""(?:not|in)[ -]?valid json(?! payload| response)|json string|could not parse the json
        (?:failed|unable) to (?:parse|deserialize) (?:the )?(?:request|tool|json|input|messages)
        duplicate (?:item|id|tool)
        previous[_ ]response
        begins with '
        cannot unmarshal<80>(?:messages|content)
        cache_control""",
    ),
    ErrorPattern(
        "invalid_history",
        "a field of a message over its own limit",
        r"(?:messages|input|contents)(?:\.\d+|\[\d+\])<60>too long(?!<60>10485760)",
    ),
    ErrorPattern(
        "unknown",
        "a field over its own limit, or one that is not for this model: neither the prompt nor the body",
        r"""(?:response_format|reasoning_effort|tool_choice)\b<40>(?:unavailable|not supported)
        \b(?:header|line|attribute|template|url)\b<20>(?:exceed\w*|longer than)
        (?:string|array|name|key|id)'?:? too (?:long|short)(?![^\n]*(?:10485760|tokens?\b))
        (?:description|name|title|identifier)<30>(?:exceed|too long|maximum length|longer than)""",
    ),
    ErrorPattern(
        "overflow",
        "a default output computed below zero: the prompt alone is over",
        r"""<out>[`'" ]*must be at least 1, got -\d+
        default_max_tokens \(-\d+\)""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "output_cap",
        "the answer's own limit",
        r"""<out>[`'"]*(?: or '?\w+'?)?<50>?(?:too (?:large|big|high)|> ?\d|larger than|greater than|参数非法)
        <out>[`'"]*<50>?(?:must|should|has to|cannot|can't|may not|needs to) (?:be|exceed)\b(?! set\b)
        <out>[`'"]*(?!<60>\bcannot be set\b)<50>?(?:not supported|unsupported|out of range|not within|invalid)
        <out>[`'"]*<50>?(?:below minimum|above maximum)
        <out>[`'"]*<50>?(?:is limited|not permitted)|<out>(?:_too_large|: field required)
        <out>[`'"]*<50>?exceeds (?:the )?(?:model|maximum|max|limit)(?![^\n]*context)
        range of <out>|(?:unsupported|unknown|invalid)<20> '?<out>
        maximum (?:allowed )?number of (?:output|completion|generated|new) tokens
        number of (?:output|completion|generated|new) tokens<40><over>
        supports? (?:at most|up to|a maximum of) [\d,]+ (?:completion|output|generated)
        maxoutputtokens|max output tokens|maximum (?:output )?tokens you requested
        output limit|maxpredictedtokens
        budget_tokens|thinking budget<20>invalid""",
        NON_LENGTH_STATUSES,
    ),
    ErrorPattern(
        "rate_limit",
        "so much in so much time, also where it speaks of too many tokens",
        r"""rate[ _-]limit|ratelimit(?:reached|exceeded)
        too[ _]many[ _]requests|request limit exceeded
        throttl
        (?:requests?|tokens?|calls?|queries)[ /]per[ -]?(?:min|sec|hour|day|month|model|user)
        per[ -](?:minute|second|hour|day)\b
        \b[ior]?(?:tpm|rpm|tpd|rpd|qps|qpm)\b
        too many tokens(?:,? (?:please )?wait| processed| per)
        too many (?:concurrent|people|users)|concurrent (?:request|session|connection|call)s?|(?<!tool use )concurrency
        increased too quickly|reached for this month
        usage[ _]?limit|hit your limit|exceeded your(?: \w+){0,3} usage
        (?:daily|weekly|hourly|\d+-hour) (?:\w+ ){0,2}(?:limit|quota|tokens?)\b
        please wait before
        frequency limit|slow[ _]?down\b|too (?:fast|frequent)|quota will reset|limit (?:resets?|will reset)
        (?:请求|调用|访问).{0,4}(?:过多|过快|频繁|次数)|(?:速率|频率|并发).{0,10}(?:过多|过快|超|限|过高)|限流""",
    ),
    ErrorPattern(
        "bytes",
        "the size of the body, in so many words or in bytes",
        r"""<body><60><size><60>(?:<over>|limit|maximum|\bmax\b|permitted|allowed|accept)
        <body><60>(?:<over>|must (?:not )?be|limit|maximum|\bmax\b|at most|up to)<40><size>
        (?:<over>|limit|\bmax)<30>\bbytes\b<20><body>
        <body><40>\bbytes\b<20>(?:<over>|too (?:large|big|many))
        (?:clos\w*|code|received|sent|status)\W{0,4}(?:with |code |frame )?1009\b|\b1009\b<20>too (?:big|large)
        message too big|<body><20>length limit exceeded
        request_too_large(?![^\n]*context)|payload_too_large
        exceeds (?:the )?max(?:imum)?(?: allowed| request| body| payload)* (?:size|number of bytes|bytes)\b(?!<60>token)
        string too long[^\n]*maximum length 10485760
        string (?:value )?length<20><over><60>\d{7}|'body' failed to satisfy constraint<40>\blength\b
        (?:payload|entity) too large|payload size exceeds|received message larger than max""",
    ),
)
