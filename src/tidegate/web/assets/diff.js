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
function textDiff(before, after) {
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
      el('span', { class: kind === GONE ? 'minus' : kind === COME ? 'plus' : null }, kind === COME ? b[j] : a[i]),
    );
  });
  told();
  return el('pre', {}, out);
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

function pieces(message) {
  const found = [],
    add = (tag, text) => {
      if (text) found.push([tag, text]);
    };
  if (message.reasoning_content) add('thinking', pretty(message.reasoning_content));
  const content = message.content ?? message.parts ?? message.output;
  if (typeof content === 'string') add(message.tool_call_id || message.call_id ? 'result' : '', content);
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
    if (Array.isArray(part.content)) part.content.forEach((inner) => add('result', inner.text ?? pretty(inner)));
    else add('result', pretty(part.content));
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
