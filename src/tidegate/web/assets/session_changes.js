/* Every compaction. */

function changeSection(page, data, texts, choose, listeners) {
  const { changes } = data;
  const side = el('div', { class: 'side' }),
    panel = el('div', { class: 'panel', id: 'change', 'aria-live': 'polite' });
  const rows = changes.map((change, place) => () => [
    [whole(data.older + place + 1), `Change ${whole(data.older + place + 1)}, ${label(change)}`],
    whole(change.seq),
    el('span', { class: change.is_undone ? 'undone-text' : null }, change.title),
    whole(change.tokens_before),
    whole(change.tokens_after),
    whole(change.tokens_after - change.tokens_before),
  ]);
  const pick = picker(side, {
    caption: 'Compactions',
    size: 20,
    empty: 'Nothing was taken out of the view so far.',
    rows,
    heads: [
      ['#', 'n'],
      ['record', 'n wide'],
      ['what', ''],
      ['before', 'n'],
      ['after', 'n'],
      ['change', 'n wide'],
    ],
    choose: (place, focus) => choose('change', place, focus),
  });
  let shown = -1;
  listeners.change.push(async (place, focus) => {
    shown = place;
    pick(place, focus);
    const change = changes[place];
    const count = [
      [change.drops, 'dropped'],
      [change.replacements, 'replaced'],
      [change.inserts, 'inserted'],
    ].filter(([many]) => many);
    const step = (by, words) =>
      el(
        'button',
        {
          type: 'button',
          'aria-label': words,
          disabled: !changes[place + by],
          on: { click: () => choose('change', place + by) },
        },
        by < 0 ? '←' : '→',
      );
    const body = el('div', { class: 'talk' });
    panel.replaceChildren();
    filled(panel, {}, [
      el(
        'header',
        {},
        el('h3', {}, change.title + (change.is_undone ? ' (undone later)' : '')),
        el(
          'div',
          { class: 'tools' },
          texts.tools && texts.tools(change),
          step(-1, 'The change before'),
          step(1, 'The next change'),
        ),
      ),
      change.reason.split('\n').filter(Boolean).map((line) => el('p', {}, line)),
      facts([
        ['record', whole(change.seq)],
        ['at', stamp(change.time) + ' UTC'],
        change.moment ? ['moment', change.moment.replaceAll('_', ' ')] : null,
        change.rule ? ['rule', change.rule] : null,
        ['history', `${whole(change.tokens_before)} → ${whole(change.tokens_after)} tokens`],
        ...count.map(([much, word]) => [word, whole(much)]),
      ]),
      body,
    ]);
    const nodes = await texts.compare(change, place);
    if (shown === place) body.append(...nodes);
  });
  page.append(
    section(
      'changes',
      'Before and after each compaction',
      null,
      el(
        'p',
        { class: 'soft aside' },
        'What the model would have been sent before and after. Tokens are our own count of the history, as the log has them; whatever left can be recalled.',
      ),
      changes.length ? el('div', { class: 'pair' }, side, panel) : side,
    ),
  );
}

/* A state note: each statement and passage leads to its sources. */
function notePart(texts, note, sources) {
  const lead = (host, ids) =>
    ids
      .filter((id) => sources[id] !== undefined)
      .map((id) => {
        const open = el('button', { type: 'button', class: 'source', 'aria-expanded': 'false' }, id);
        let shown = null;
        open.addEventListener('click', async () => {
          if (shown) {
            shown.remove();
            shown = null;
          } else {
            shown = el('div', { class: 'talk' }, await each(texts, [sources[id]], Number(id.slice(1)) - 1, true));
            host.append(shown);
          }
          open.setAttribute('aria-expanded', String(Boolean(shown)));
        });
        return open;
      });
  const line = (name, word, text, ids) => {
    const host = el('li', { class: name }, word && el('span', { class: 'word' }, word + ' '), text + ' ');
    host.append(...lead(host, ids));
    return host;
  };
  const statement = ({ text, sources: ids, is_new, is_marked }) => {
    const words = [is_new && '+ new', is_marked && '? marked'].filter(Boolean).join(' ');
    return line(is_marked ? 'marked' : is_new ? 'new' : null, words, text.replace(/^\s*[-*]\s+/, ''), ids);
  };
  const nodes = note.sections.flatMap(({ heading, statements, removed }) => [
    el('h4', {}, heading),
    el('ul', {}, statements.map(statement), removed.map((text) => line('removed', '− removed', text.replace(/^\s*[-*]\s+/, ''), []))),
  ]);
  if (note.passages.length) {
    nodes.push(el('h4', {}, 'Passages, quoted from the log'));
    nodes.push(
      el(
        'ul',
        {},
        note.passages.map(({ source, place, text }) => {
          const host = line(null, '', place, [source]);
          host.append(el('pre', { tabindex: 0, 'aria-label': 'The passage' }, text));
          return host;
        }),
      ),
    );
  }
  if (note.dropped.length) {
    nodes.push(el('h4', {}, 'Dropped by the check'));
    nodes.push(el('ul', {}, note.dropped.map((text) => line('removed', '', text, []))));
  }
  return el('div', { class: 'state-note' }, nodes);
}

async function difference(texts, before, after) {
  const ops = align(before, after),
    nodes = [];
  let run = [],
    gone = [],
    come = [];
  const still = () => {
    const list = run;
    if (list.length)
      nodes.push(
        folded(`${many(list.length, 'message')} unchanged`, () =>
          each(
            texts,
            list.map(([at]) => before[at]),
            list[0][0],
          ),
        ),
      );
    run = [];
  };
  async function told() {
    const [a, b] = [await texts.all(gone.map((at) => before[at])), await texts.all(come.map((at) => after[at]))];
    const mates = paired(a, b),
      met = new Set(mates.filter((at) => at >= 0));
    let next = 0;
    const fresh = (upto) => {
      for (; next < upto; next++)
        if (!met.has(next)) nodes.push(card(b[next], come[next] + 1, b.length < 3, 'come', '+ came in'));
    };
    a.forEach((message, at) => {
      if (mates[at] < 0) {
        nodes.push(card(message, gone[at] + 1, false, 'gone', '− left'));
        return;
      }
      fresh(mates[at]);
      nodes.push(changed(message, b[mates[at]], come[mates[at]] + 1, nodes.filter((node) => node.open).length < 2));
    });
    fresh(b.length);
    gone = [];
    come = [];
  }
  for (const [kind, i, j] of ops) {
    if (kind === SAME) {
      if (gone.length || come.length) await told();
      run.push([i, j]);
      continue;
    }
    still();
    if (kind === GONE) gone.push(i);
    else come.push(j);
  }
  still();
  if (gone.length || come.length) await told();
  return nodes.length ? nodes : [el('p', { class: 'note' }, 'What would be sent is the same before and after.')];
}
/* For each that left, the one that came in its place, if any; in order, so that nothing crosses. */
function paired(gone, come) {
  const marks = come.map(markOf);
  let from = 0;
  return gone.map((message) => {
    const mark = markOf(message);
    const place = come.findIndex(
      (other, at) =>
        at >= from &&
        speaker(other) === speaker(message) &&
        (mark ? marks[at] === mark : !marks[at] && gone.length === come.length),
    );
    if (place >= 0) from = place + 1;
    return place;
  });
}
function changed(before, after, number, open) {
  const [a, b] = [plain(before), plain(after)];
  return el(
    'details',
    { class: 'changed', open },
    el(
      'summary',
      {},
      el('span', { class: 'word' }, '± changed'),
      el('span', { class: 'who' }, whole(number) + ' ' + speaker(after)),
      el('span', { class: 'what' }, b.slice(0, 200)),
      el('span', { class: 'much' }, `${short(a.length)} → ${short(b.length)} chars`),
    ),
    el('div', { class: 'inside' }, textDiff(a, b)),
  );
}
