/* What became of a list, and of a text: Myers' shortest edit script, with a bound on the work. */

const SAME = 0,
  GONE = -1,
  COME = 1;
const MOST_STEPS = 1200;

/* Steps [kind, place in a, place in b] from a to b. */
function align(a, b) {
  let start = 0,
    ends = 0;
  const least = Math.min(a.length, b.length);
  while (start < least && a[start] === b[start]) start++;
  while (ends < least - start && a[a.length - 1 - ends] === b[b.length - 1 - ends]) ends++;
  const kinds = [
    ...Array(start).fill(SAME),
    ...between(a.slice(start, a.length - ends), b.slice(start, b.length - ends)),
    ...Array(ends).fill(SAME),
  ];
  let i = 0,
    j = 0;
  return kinds.map((kind) => [kind, kind === COME ? -1 : i++, kind === GONE ? -1 : j++]);
}
function between(a, b) {
  const n = a.length,
    m = b.length,
    most = Math.min(n + m, MOST_STEPS),
    mid = most + 1;
  const reach = new Int32Array(2 * most + 3),
    trace = [];
  for (let d = 0; d <= most; d++) {
    trace.push(reach.slice());
    for (let k = -d; k <= d; k += 2) {
      let x = falls(reach, mid, k, d) ? reach[mid + k + 1] : reach[mid + k - 1] + 1;
      while (x < n && x - k < m && a[x] === b[x - k]) x++;
      reach[mid + k] = x;
      if (x >= n && x - k >= m) return walked(trace, mid, n, m);
    }
  }
  return [...Array(n).fill(GONE), ...Array(m).fill(COME)];
}
const falls = (reach, mid, k, d) => k === -d || (k !== d && reach[mid + k - 1] < reach[mid + k + 1]);
function walked(trace, mid, n, m) {
  const kinds = [];
  let x = n,
    y = m;
  for (let d = trace.length - 1; d >= 0; d--) {
    const reach = trace[d],
      k = x - y,
      fell = falls(reach, mid, k, d);
    const px = d ? reach[mid + (fell ? k + 1 : k - 1)] : 0,
      py = d ? px - (fell ? k + 1 : k - 1) : 0;
    while (x > px && y > py) {
      kinds.push(SAME);
      x--;
      y--;
    }
    if (d) kinds.push(fell ? COME : GONE);
    x = px;
    y = py;
  }
  return kinds.reverse();
}

/* The lines of two texts side by side, long stretches without a change left out. */
function textDiff(before, after, paint = (line) => line) {
  const a = before.split('\n'),
    b = after.split('\n');
  const ops = align(a, b),
    near = new Uint8Array(ops.length);
  ops.forEach(([kind], at) => {
    if (kind) near.fill(1, Math.max(0, at - 2), at + 3);
  });
  const out = el('code', { class: 'diff' });
  let skipped = 0;
  const told = () => {
    if (skipped) out.append(el('span', { class: 'skip' }, `⋯ ${many(skipped, 'line')} unchanged`));
    skipped = 0;
  };
  ops.forEach(([kind, i, j], at) => {
    if (!near[at]) {
      skipped++;
      return;
    }
    told();
    out.append(
      el('span', { class: kind === GONE ? 'minus' : kind === COME ? 'plus' : null }, paint(kind === COME ? b[j] : a[i])),
    );
  });
  told();
  return el('pre', {}, out);
}

/* --- the edit of a file as a diff --------------------------------------------------------------------------------- */

const named = (values, names) => names.map((name) => values[name]).find((value) => typeof value === 'string');
/* The change that a call makes to a file, recognized by the names of its arguments; null for any other call. */
function changeOf(tag, text) {
  if (!tag.startsWith('calls ')) return null;
  let values;
  try {
    values = JSON.parse(text);
  } catch {
    return null;
  }
  if (values === null || typeof values !== 'object') return null;
  const path = named(values, ['path', 'file_path']),
    before = named(values, ['old', 'old_string', 'old_str']),
    after = named(values, ['new', 'new_string', 'new_str']),
    written = named(values, ['text', 'content', 'file_text']);
  if (path === undefined) return null;
  if (before !== undefined && after !== undefined)
    return { path, before, after, everywhere: values.all === true || values.replace_all === true };
  return written !== undefined && /write|create/i.test(tag) ? { path, before: null, after: written } : null;
}
const CODE =
  /(#.*$|\/\/.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|\b(\d[\w.]*)\b|\b(and|as|assert|async|await|break|case|class|const|continue|def|del|elif|else|enum|except|export|extends|false|False|finally|fn|for|from|func|function|if|impl|import|in|interface|is|lambda|let|match|mod|new|None|not|null|or|package|pass|pub|raise|return|self|static|struct|switch|this|throw|true|True|try|type|use|var|while|with|yield)\b/g;
/* A line of code with its comments, strings, numbers and keywords marked: enough for the common languages. */
function painted(line) {
  const out = [];
  let end = 0;
  if (line.length < 2000)
    for (const match of line.matchAll(CODE)) {
      const kind = ['note', 'string', 'number', 'keyword'][match.slice(1).findIndex((group) => group !== undefined)];
      out.push(line.slice(end, match.index), el('i', { class: kind }, match[0]));
      end = match.index + match[0].length;
    }
  return [...out, line.slice(end)];
}
function changeView({ path, before, after, everywhere }) {
  const lines = (text) => text.replace(/\n$/, '').split('\n');
  const ops = before === null ? [] : align(lines(before), lines(after));
  const added = before === null ? lines(after).length : ops.filter(([kind]) => kind === COME).length,
    removed = ops.filter(([kind]) => kind === GONE).length;
  const head = `${path}${everywhere ? ', every occurrence' : ''}  +${added}${removed ? ` −${removed}` : ''}`;
  const shown =
    before === null
      ? el('pre', {}, el('code', { class: 'diff' }, lines(after).map((line) => el('span', { class: 'plus' }, painted(line)))))
      : textDiff(lines(before).join('\n'), lines(after).join('\n'), painted);
  return [el('span', { class: 'tag' }, head), shown];
}

/* --- a message of any dialect, as pieces of text ------------------------------------------------------------------ */

const pretty = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
function parsed(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/* The calls that were denied, by their ids. */
const denials = new Map();
const resultTag = (call, by = denials.get(call)) => (by ? 'result: denied by ' + by : 'result');

function pieces(message) {
  const found = [],
    add = (tag, text) => {
      if (text) found.push([tag, text]);
    };
  if (message.reasoning_content) add('thinking', pretty(message.reasoning_content));
  const content = message.content ?? message.parts ?? message.output;
  const call = message.tool_call_id || message.call_id;
  if (typeof content === 'string') add(call ? resultTag(call) : '', content);
  else if (Array.isArray(content)) content.forEach((part) => piece(part, add));
  else if (content !== null && content !== undefined) add('', pretty(content));
  (message.tool_calls || []).forEach((call) =>
    add('calls ' + call.function?.name, parsed(pretty(call.function?.arguments ?? call))),
  );
  if (message.type === 'function_call') add('calls ' + message.name, parsed(pretty(message.arguments)));
  if (!found.length) add('', JSON.stringify(message, null, 2));
  return found;
}
function piece(part, add) {
  if (part === null || typeof part !== 'object') add('', String(part));
  else if (part.type === 'tool_use') add('calls ' + part.name, pretty(part.input));
  else if (part.functionCall) add('calls ' + part.functionCall.name, pretty(part.functionCall.args));
  else if (part.type === 'tool_result') {
    const tag = resultTag(part.tool_use_id, part.denied_by);
    if (Array.isArray(part.content)) part.content.forEach((inner) => add(tag, inner.text ?? pretty(inner)));
    else add(tag, pretty(part.content));
  } else if (part.functionResponse) {
    const said = part.functionResponse.response;
    add('result of ' + part.functionResponse.name, pretty(said?.output ?? said?.result ?? said));
  } else if (part.thinking !== undefined || part.thought) add('thinking', pretty(part.thinking ?? part.text));
  else if (typeof part.text === 'string') add('', part.text);
  else add(part.type || '', pretty(part));
}
function speaker(message) {
  const parts = Array.isArray(message.content) ? message.content : message.parts || [];
  if (parts.length && parts.every((part) => part && (part.type === 'tool_result' || part.functionResponse)))
    return 'tool';
  if (message.type === 'function_call_output') return 'tool';
  if (message.type === 'function_call' || message.type === 'reasoning') return 'assistant';
  return { model: 'assistant', developer: 'system' }[message.role] || message.role || message.type || 'message';
}
const plain = (message) =>
  pieces(message)
    .map(([tag, text]) => (tag ? `[${tag}]\n` : '') + text)
    .join('\n');

/* Which message it is, as far as a change leaves that alone: to find what became of one. */
function markOf(message) {
  const parts = Array.isArray(message.content) ? message.content : [];
  const ids = [
    message.tool_call_id,
    message.call_id,
    ...(message.tool_calls || []).map((call) => call.id),
    ...parts.map((part) => part && (part.tool_use_id || part.id)),
  ].filter(Boolean);
  return ids.length ? speaker(message) + ' ' + ids.join(' ') : '';
}
