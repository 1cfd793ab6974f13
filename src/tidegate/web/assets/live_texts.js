/* Messages that are fetched when they are looked at, and what became of them. */

const MOST_AT_ONCE = 40;

function remoteTexts(name) {
  const known = new Map();
  async function all(refs) {
    const missing = [...new Set(refs.filter((ref) => !known.has(ref)))];
    for (let from = 0; from < missing.length; from += MOST_AT_ONCE) {
      const part = missing.slice(from, from + MOST_AT_ONCE);
      const found = await ask('messages', { name, refs: part.join(',') });
      part.forEach((ref, at) => known.set(ref, found[at]));
    }
    if (known.size > 4000) known.clear(); /* a page that stays open does not grow without end */
    return Promise.all(refs.map(async (ref) => known.get(ref) ?? (await all([ref]))[0]));
  }
  return { all, text: async (ref) => (await all([ref]))[0] };
}

const WORDS = { gone: ['−', 'left out'], come: ['+', 'added by tidegate'], kept: ['', 'unchanged'] };

/* The stretches of a comparison as nodes. Long ones are folded, and a part of them is shown at a time. `labels` say what
   changed and added messages hold. */
function stretches(texts, found, labels) {
  const counts = { changed: 0, gone: 0, come: 0, kept: 0 };
  found.forEach(({ state, refs, pairs }) => (counts[state] += refs.length + pairs.length));
  const words = [
    [counts.changed, 'changed'],
    [counts.gone, 'left out'],
    [counts.come, 'added by tidegate'],
    [counts.kept, 'unchanged'],
  ];
  const sum = words.filter(([count]) => count).map(([count, word]) => `${whole(count)} ${word}`);
  const nodes = sum.length > 1 ? [el('p', { class: 'soft aside' }, `Of the messages: ${sum.join(', ')}.`)] : [];
  for (let at = 0; at < found.length; ) {
    let end = at;
    while (end < found.length && (found[end].state === 'changed' || (found[end].state === 'kept' && found[end].refs.length < 5))) end++;
    if (end - at > 6) {
      nodes.push(mixed(texts, found.slice(at, end), labels));
      at = end;
    } else nodes.push(...stretchNodes(texts, found[at++], nodes.length < 4, labels));
  }
  return nodes;
}
function stretchNodes(texts, { state, refs, pairs }, open, labels) {
  if (state === 'changed') return pairs.map(([before, after], at) => pairOf(texts, before, after, open && at < 2, labels[before]));
  const [sign, words] = WORDS[state];
  if (state === 'come' && refs.length <= 3)
    return refs.map((ref) => folded([sign, words, labels[ref]].filter(Boolean).join(' '), () => each(texts, [ref], 0, true), 'come'));
  const title = `${sign} ${many(refs.length, 'message')} ${words}`.trim();
  return [folded(title, () => some(texts, refs, 0, state), state === 'kept' ? null : state)];
}
/* Many short stretches, changed and not by turns: folded, and a part of them at a time. */
function mixed(texts, found, labels) {
  const pairs = found.reduce((sum, each) => sum + each.pairs.length, 0),
    kept = found.reduce((sum, each) => sum + each.refs.length, 0);
  const part = (from) => {
    const nodes = found.slice(from, from + MOST_AT_ONCE).flatMap((each, at) => stretchNodes(texts, each, from + at < 3, labels));
    const rest = found.length - from - MOST_AT_ONCE;
    if (rest > 0) {
      const more = el('button', { type: 'button' }, `Show more of ${whole(rest)}`);
      more.addEventListener('click', () => more.replaceWith(...part(from + MOST_AT_ONCE)));
      nodes.push(more);
    }
    return nodes;
  };
  return folded(`± ${many(pairs, 'message')} changed, ${whole(kept)} between them unchanged`, async () => part(0), 'changed');
}
async function some(texts, refs, from, state) {
  const part = refs.slice(from, from + MOST_AT_ONCE),
    rest = refs.length - from - part.length;
  const name = state === 'kept' ? undefined : state;
  const nodes = (await texts.all(part)).map((message, at) => card(message, part[at] > 0 ? part[at] : 0, false, name));
  if (rest > 0) {
    const more = el('button', { type: 'button' }, `Show ${whole(Math.min(rest, MOST_AT_ONCE))} more of ${whole(rest)}`);
    more.addEventListener('click', async () => {
      more.disabled = true;
      const next = await some(texts, refs, from + part.length, state);
      more.replaceWith(...next);
      next[0]?.querySelector('summary')?.focus();
    });
    nodes.push(more);
  }
  return nodes;
}
function pairOf(texts, before, after, open, label) {
  const host = el('details', { class: 'changed' });
  const load = async () => {
    if (host.dataset.loaded) return;
    host.dataset.loaded = 'yes';
    const [a, b] = await texts.all([before, after]);
    const full = changed(a, b, before > 0 ? before : 0, true);
    host.replaceChildren(...full.childNodes);
  };
  host.append(el('summary', {}, el('span', { class: 'word' }, '± changed'), label && el('span', { class: 'what' }, label)));
  host.addEventListener('toggle', load);
  host.open = open;
  return host;
}
