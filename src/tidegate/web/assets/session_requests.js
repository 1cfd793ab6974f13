/* Every request. */

const tint = (category) => (category === 'tools' ? 'tools-share' : category);
const tintOf = { system: 'system', user: 'user', assistant: 'assistant', tool: 'results' };
const share = (request) => (request.input ? request.read / request.input : 0);
const cost = (request) => (request.priced ? dollars(sumOf(request.paid)) : '–');

function requestSection(page, data, texts, choose, listeners, used) {
  const { requests } = data,
    clients = requests.some((request) => request.client);
  const side = el('div', { class: 'side' }),
    panel = el('div', { class: 'panel', id: 'request', 'aria-live': 'polite' });
  const rows = requests.map((request, place) => () => [
    [data.number(place), `Request ${data.number(place)}, ${whole(request.total)} tokens`],
    whole(request.head),
    ...(clients ? [el('span', { class: 'client' }, request.client)] : []),
    whole(request.total),
    request.input ? percent(share(request)) : '–',
    request.reported ? whole(request.output) : '–',
    cost(request),
    request.priced ? dollars(request.so_far) : '–',
  ]);
  const pick = picker(side, {
    caption: 'Requests',
    size: 20,
    empty: 'No request was made yet.',
    rows,
    heads: [
      ['#', 'n'],
      ['record', 'n wide'],
      ...(clients ? [['client', '']] : []),
      ['tokens', 'n'],
      ['cached', 'n'],
      ['output', 'n wide'],
      ['cost', 'n'],
      ['so far', 'n'],
    ],
    choose: (place, focus) => choose('request', place, focus),
  });
  let form = 'talk';
  const body = el('div');
  let shown = -1;
  async function fill() {
    const request = requests[shown],
      mine = shown;
    if (!request) return;
    if (request.state < 0) {
      body.replaceChildren(
        el(
          'p',
          { class: 'note' },
          `The text of this request is left out here; tidegate show SESSION --at ${request.head} prints it.`,
        ),
      );
      return;
    }
    const list = texts.places(request.state);
    const inside =
      form === 'json'
        ? await asJson(texts, request, list)
        : talk(texts, list, shared(data, texts, mine), data.number(mine - 1));
    if (mine === shown) body.replaceChildren(inside);
  }
  listeners.request.push((place, focus) => {
    shown = place;
    pick(place, focus);
    const request = requests[place];
    const step = (by, words) =>
      el(
        'button',
        {
          type: 'button',
          'aria-label': words,
          disabled: !requests[place + by],
          on: { click: () => choose('request', place + by) },
        },
        by < 0 ? '←' : '→',
      );
    panel.replaceChildren(
      el(
        'header',
        {},
        el('h3', {}, `Request ${data.number(place)} of ${data.count}`),
        el(
          'div',
          { class: 'tools' },
          step(-1, 'The request before'),
          step(1, 'The next request'),
          choice(
            'Form',
            [
              ['talk', 'Messages'],
              ['json', 'JSON'],
            ],
            form,
            (value) => {
              form = value;
              fill();
            },
          ),
        ),
      ),
      facts([
        ['record', whole(request.head)],
        ['at', stamp(request.time) + ' UTC'],
        request.client ? ['client', request.client] : null,
        ['model', request.model || '–'],
        ['wire', request.wire],
        [request.reported ? 'tokens, reported' : 'tokens, measured', whole(request.total)],
        request.counted ? ['counted by us', whole(request.counted)] : null,
        ['from the cache', request.input ? `${whole(request.read)} (${percent(share(request))})` : '–'],
        request.written ? ['written to it', whole(request.written)] : null,
        ['output', request.reported ? whole(request.output) : '–'],
        ['cost', cost(request)],
        request.priced ? ['so far', dollars(request.so_far)] : null,
      ]),
      bar(
        used,
        used.map((name) => request.parts[data.categories.indexOf(name)]),
      ),
      body,
    );
    fill();
  });
  const head = [
    'request',
    'record',
    'time',
    'client',
    'model',
    'wire',
    'reported',
    'tokens',
    'counted',
    'input',
    'cache_read',
    'cache_write',
    'output',
    'dollars',
    'dollars_so_far',
    ...data.categories,
  ];
  const line = (request, place) => [
    data.first + place + 1,
    request.head,
    request.time,
    request.client,
    request.model,
    request.wire,
    request.reported,
    request.total,
    request.counted,
    request.input,
    request.read,
    request.written,
    request.output,
    request.priced ? sumOf(request.paid) : null,
    request.so_far,
    ...request.parts,
  ];
  page.append(
    section(
      'requests',
      'Every request',
      saver('Figures as CSV', 'requests.csv', 'text/csv', () => csv([head, ...requests.map(line)])),
      requests.length ? el('div', { class: 'pair' }, side, panel) : side,
    ),
  );
}

/* How many leading messages are those of the request before. */
function shared(data, texts, place) {
  const before = data.requests[place - 1],
    now = data.requests[place];
  if (!before || before.state < 0 || data.states[before.state][0] !== data.states[now.state][0]) return 0;
  const a = texts.places(before.state),
    b = texts.places(now.state);
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  return same;
}
function facts(pairs) {
  return el(
    'dl',
    { class: 'facts' },
    pairs.filter(Boolean).map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))),
  );
}
function bar(names, parts) {
  const sum = sumOf(parts) || 1;
  const words = names.map((name, at) => `${name} ${percent(parts[at] / sum, 0)}`).join(', ');
  const host = el('div', { class: 'bar', role: 'img', 'aria-label': words, title: words });
  names.forEach((name, at) => {
    const piece = el('span', { class: tint(name) });
    piece.style.width = (100 * parts[at]) / sum + '%';
    host.append(piece);
  });
  return host;
}

function talk(texts, list, same, before) {
  const host = el('div', { class: 'talk' });
  if (same)
    host.append(folded(`${many(same, 'message')} as in request ${before}`, () => each(texts, list.slice(0, same), 0)));
  const rest = list.slice(same),
    open = rest.length <= 6;
  each(texts, rest, same, open).then((nodes) => host.append(...nodes));
  return host;
}
async function each(texts, list, from, open) {
  return (await texts.all(list)).map((message, at) => card(message, from + at + 1, open));
}
function folded(words, make, name) {
  const inside = el('div', { class: 'inside talk' });
  const once = async () => {
    if (!inside.firstChild) inside.append(...(await make()));
  };
  return el(
    'details',
    { class: name, on: { toggle: once } },
    el('summary', {}, el('span', { class: 'who' }, words)),
    inside,
  );
}
function card(message, number, open, name, word) {
  const who = speaker(message),
    parts = pieces(message);
  const length = parts.reduce((sum, [, text]) => sum + text.length, 0);
  const first = parts
    .map(([tag, text]) => (tag && tag !== 'result' ? tag + ' ' : '') + text.slice(0, 200))
    .join(' · ')
    .slice(0, 240);
  return el(
    'details',
    { class: name || tintOf[who], open: Boolean(open) },
    el(
      'summary',
      {},
      word && el('span', { class: 'word' }, word),
      el('span', { class: 'who' }, number ? whole(number) + ' ' : '', who),
      el('span', { class: 'what' }, first),
      el('span', { class: 'much' }, short(length) + ' chars'),
    ),
    el(
      'div',
      { class: 'inside' },
      parts.map(([tag, text]) => {
        const change = changeOf(tag, text);
        return [tag && el('span', { class: 'tag' }, tag), change ? changeView(change) : el('pre', {}, text)];
      }),
    ),
  );
}
async function asJson(texts, request, list) {
  const body = { ...(await texts.head(request.state)), [texts.key(request.state)]: await texts.all(list) };
  const text = JSON.stringify(body, null, 2);
  return el(
    'div',
    { class: 'talk' },
    el(
      'div',
      { class: 'tools' },
      saver('Save as JSON', `request-${request.head}.json`, 'application/json', () => text),
    ),
    el(
      'pre',
      { tabindex: 0, 'aria-label': 'The request as JSON' },
      text.length > 400000 ? text.slice(0, 400000) + '\n… save it to see the rest' : text,
    ),
  );
}
