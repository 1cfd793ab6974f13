/* The page of a session. */

async function show() {
  const data = await unpack('main');
  const { requests, changes, points } = data;
  data.number = (place) => whole(data.first + place + 1);
  data.count = whole(data.first + requests.length);
  const told = (category) => points.parts.some((parts) => parts[data.categories.indexOf(category)]);
  const used = data.categories.filter(told);
  const at = { request: -1, change: -1, hover: -1 };
  const page = byId('page');
  const texts = library(data);
  data.denied.forEach(([call, by]) => denials.set(call, by));

  /* --- which one is looked at --- */
  const listeners = { request: [], change: [] };
  function choose(kind, place, focus) {
    if (place < 0 || at[kind] === place) return;
    at[kind] = place;
    listeners[kind].forEach((tell) => tell(place, focus));
  }

  windowSection(page, data, used, at, choose, listeners);
  costSection(page, data, at, choose, listeners);
  requestSection(page, data, texts, choose, listeners, used);
  changeSection(page, data, texts, choose, listeners);
  foot(data);
  choose('request', requests.length - 1);
  const fall = (change) => change.tokens_before - change.tokens_after;
  const largest = changes.reduce(
    (best, change, place) => (best < 0 || fall(change) > fall(changes[best]) ? place : best),
    -1,
  );
  choose('change', largest);
  document.documentElement.dataset.ready = 'yes';
}

/* The texts, unpacked a block at a time when they are asked for, and the requests made of them. */
function library(data) {
  const starts = [0],
    blocks = new Map(),
    known = new Map([[-1, []]]);
  data.chunks.forEach((count) => starts.push(starts.at(-1) + count));
  async function text(place) {
    const block = starts.findIndex((start, at) => start <= place && place < starts[at + 1]);
    if (!blocks.has(block)) blocks.set(block, unpack('texts' + block));
    return (await blocks.get(block))[place - starts[block]];
  }
  function places(state) {
    let from = state;
    while (!known.has(from)) from--;
    let list = known.get(from);
    for (let each = from + 1; each <= state; each++) {
      const [, , kept, added, tail] = data.states[each];
      list = [...list.slice(0, kept), ...added, ...(tail ? list.slice(-tail) : [])];
      if (each % 32 === 0) known.set(each, list);
    }
    return list;
  }
  const found = {
    text,
    places,
    all: (list) => Promise.all(list.map(text)),
    head: (state) => text(data.states[state][0]),
    key: (state) => data.states[state][1],
    compare: async (change, place) => {
      const { before, after, note, sources } = data.comparisons[place];
      if (note) return [notePart(found, note, sources)];
      if (before < 0) return [el('p', { class: 'note' }, 'The texts of this change are left out here.')];
      return difference(found, places(before), places(after));
    },
  };
  return found;
}

function foot(data) {
  byId('foot').append(
    el(
      'p',
      {},
      `Written by tidegate ${data.version} from the log of the session; nothing in this file reaches a network.`,
    ),
    el(
      'ul',
      {},
      data.left_out.map((words) => el('li', {}, words)),
    ),
  );
}

show().catch((failure) => {
  const words = `This page could not be drawn: ${failure.message} Create it again with tidegate view, and open it in a current browser.`;
  byId('page').append(el('p', { class: 'note', role: 'alert' }, words));
  throw failure;
});
