/* One session of the gateway. */

async function showSession() {
  const boot = await unpack('main'),
    name = boot.session,
    texts = remoteTexts(name);
  const shown = name.slice(boot.scope.length);
  document.title = shown + ' · tidegate';
  byId('title').textContent = shown;
  const figures = el('dl', { class: 'figures', id: 'figures' }),
    progress = el('p', { class: 'note', role: 'status' }),
    tree = el('div', { id: 'tree-part' }),
    chartPart = el('div', { id: 'chart-part' }),
    changePart = el('div', { id: 'change-part' });
  const requests = requestPart(name, texts, boot);
  byId('page').append(progress, figures, tree, chartPart, requests.node, changePart, recallPart(name));

  let last = null,
    axisOf = -1;
  const picked = { change: 0 };
  texts.compare = async (change) => {
    const found = await ask('change', { name, seq: change.seq });
    return found.note ? [notePart(texts, found.note, found.sources)] : stretches(texts, found.stretches, found.labels);
  };
  async function toggle(change, redo, button) {
    button.disabled = true;
    try {
      await sendChange('undo', { name, seq: change.seq, redo }, boot.proof);
    } catch (failure) {
      button.after(el('span', { class: 'verdict bad', role: 'alert' }, failure.message));
    }
    await run();
  }
  const button = (words, change, redo) => {
    const node = el('button', { type: 'button', 'data-key': words }, words);
    node.addEventListener('click', () => toggle(change, redo, node));
    return node;
  };
  texts.tools = (change) => {
    if (!last) return null;
    if (change.seq === last.undo) return button('Undo', change, false);
    if (change.seq === last.redo) return button('Redo', change, true);
    return null;
  };

  /* The end of the log is enough for the window now and the newest requests: they are there before the log is read. */
  async function showNewest() {
    const newest = await ask('newest', { name });
    describeHead(newest, null);
    figures.replaceChildren(figure('window', filling(newest.figures)));
    requests.preview(newest.rows);
    document.documentElement.dataset.newest = 'yes';
  }
  async function fill() {
    let [data] = await Promise.all([ask('session', { name }), last ? null : showNewest()]);
    while (data.read_to < data.head) {
      progress.textContent = `Reading the log: ${whole(data.read_to)} of ${whole(data.head)} records.`;
      data = await ask('session', { name });
    }
    progress.hidden = true;
    const before = last;
    last = data;
    const listed = requests.update(data.newest); /* the gateway compares the request while the rest is drawn */
    describe(data, boot, figures);
    redraw(tree, familyPart(data, boot));
    drawChart(data, before);
    drawChanges(data, before);
    await listed;
    document.documentElement.dataset.ready = 'yes';
  }
  function drawChart(data, before) {
    if (before && before.newest.total === data.newest.total && before.changes.length === data.changes.length) return;
    const hadFocus = chartPart.contains(document.activeElement);
    const rows = data.points,
      at = { request: axisOf < 0 ? rows.length - 1 : rows.findIndex((row) => row.number === axisOf), change: -1, hover: -1 };
    const listeners = { request: [], change: [] };
    const choose = (kind, place) => {
      if (kind === 'change') {
        pickChange(data.changes[place]?.seq);
        return;
      }
      if (!rows[place]) return;
      at.request = place;
      axisOf = rows[place].number;
      listeners.request.forEach((tell) => tell(place));
      requests.open(axisOf);
    };
    const points = {
      seq: rows.map((row) => row.head),
      time: rows.map((row) => row.time),
      window: rows.map((row) => row.window),
      parts: rows.map((row) => row.parts),
    };
    const used = data.categories.filter((_, column) => rows.some((row) => row.parts[column]));
    const view = {
      ...data,
      requests: rows,
      points,
      number: (place) => whole(rows[place]?.number ?? 0),
      count: whole(data.newest.total),
    };
    chartPart.replaceChildren();
    if (rows.length) windowSection(chartPart, view, used, at, choose, listeners);
    else chartPart.append(el('p', { class: 'note' }, 'No request has been answered yet.'));
    if (hadFocus) chartPart.querySelector('.chart')?.focus();
  }
  let pickChange = () => {};
  function drawChanges(data, before) {
    const state = (each) => each && [each.changes.length, each.older, each.undo, each.redo].join();
    if (state(before) === state(data)) return;
    const hadFocus = changePart.contains(document.activeElement);
    const listeners = { change: [] },
      { changes } = data;
    changePart.replaceChildren();
    const choose = (kind, place, focus) => {
      if (!changes[place]) return;
      picked.change = changes[place].seq;
      listeners.change.forEach((tell) => tell(place, focus));
    };
    pickChange = (seq) => {
      choose('change', changes.findIndex((each) => each.seq === seq));
      byId('changes').scrollIntoView();
    };
    changeSection(changePart, data, texts, choose, listeners);
    const kept = changes.findIndex((each) => each.seq === picked.change);
    choose('change', kept >= 0 && before && before.changes.length === changes.length ? kept : changes.length - 1, hadFocus);
  }
  const run = follow({ name }, fill);
  await run();
}

function describeHead({ figures, head }, client) {
  byId('subtitle').textContent = [client, figures.model || 'no model named', figures.dialect, `${whole(head)} records`]
    .filter(Boolean)
    .join(' · ');
}
const figure = (term, value) => el('div', {}, el('dt', {}, term), el('dd', {}, value));
function describe(data, boot, host) {
  const it = data.figures;
  const title = data.row?.title;
  if (title) {
    document.title = title + ' · tidegate';
    byId('title').textContent = title;
  }
  describeHead(data, data.row ? whereFrom(data.row, boot) : '');
  const saved = it.dollars_without - it.dollars;
  const pairs = [
    ['window', filling(it)],
    ['requests', whole(it.requests)],
    ['compactions', whole(it.compactions)],
    ['tokens read', whole(it.input_tokens)],
    ['of these cached', cached(it)],
    ['cost', money(it, it.dollars)],
    [
      'without tidegate',
      [
        money(it, it.dollars_without),
        el('small', {}, it.too_long ? `${many(it.too_long, 'request')} would not have fit` : saved > 0 ? `${dollars(saved)} more` : 'an estimate'),
      ],
    ],
  ];
  host.replaceChildren(...pairs.map(([term, value]) => figure(term, value)));
}

function familyPart(data, boot) {
  if (data.tree.length < 2) return null;
  return section(
    'agents',
    'Agents of this task',
    null,
    el(
      'ul',
      { class: 'tree' },
      data.tree.map((row) => {
        const words = row.name.slice(boot.scope.length),
          mine = row.name === boot.session;
        const item = el(
          'li',
          { class: 'depth' + Math.min(row.depth, 4) },
          row.depth > 0 && el('span', { class: 'branch', 'aria-hidden': 'true' }, '└ '),
          mine ? el('b', { 'aria-current': 'page' }, words) : el('a', { href: sessionLink(row.name), 'data-key': row.name }, words),
          row.is_running && el('span', { class: 'running' }, 'running'),
          el('span', { class: 'soft' }, ` ${row.figures.model || ''} · ${many(row.figures.requests, 'request')} · `, money(row.figures, row.figures.dollars)),
        );
        return item;
      }),
    ),
  );
}

/* The requests, twenty at a time, and one of them: as the client had it, as it was sent, and the difference. */
function requestPart(name, texts, boot) {
  const list = el('div', { class: 'side' }),
    panel = el('div', { class: 'panel', id: 'request' });
  let before = Infinity,
    chosen = 0,
    follows = true,
    total = 0,
    form = 'diff',
    rows = [];
  const heads = () => [
    ['#', 'n'],
    ['time', 'wide'],
    ...(rows.some((row) => row.client) ? [['client', '']] : []),
    ['tokens', 'n'],
    ['cached', 'n'],
    ['cost', 'n'],
  ];
  const table = (columns, body) =>
    el(
      'div',
      { class: 'scroll' },
      el(
        'table',
        {},
        el('caption', { class: 'hidden' }, 'Requests, newest first'),
        el('thead', {}, el('tr', {}, columns.map(([words, kind]) => el('th', { scope: 'col', class: kind }, words)))),
        el('tbody', {}, body),
      ),
    );
  const cells = (row) => [
    el('td', { class: 'wide' }, stamp(row.time, false)),
    rows.some((each) => each.client) && el('td', { class: 'client' }, row.client),
    el('td', { class: 'n' }, whole(row.total)),
    el('td', { class: 'n' }, row.input ? percent(share(row)) : '–'),
    el('td', { class: 'n' }, cost(row)),
  ];
  async function load(focus, known) {
    const found = known ?? (await ask('requests', { name, before: Math.min(before, 1e12) }));
    rows = found.rows;
    total = found.total;
    const shift = (to) => () => {
      follows = to >= total;
      before = follows ? Infinity : Math.max(to, Math.min(20, total));
      load();
    };
    const end = rows[0]?.number ?? 0;
    redraw(
      list,
      table(
        heads(),
        rows.map((row) =>
          el(
            'tr',
            { class: 'pick' + (row.number === chosen ? ' on' : ''), on: { click: () => open(row.number) } },
            el(
              'td',
              { class: 'n' },
              el(
                'button',
                {
                  type: 'button',
                  class: 'row',
                  'data-key': 'request' + row.number,
                  'aria-pressed': String(row.number === chosen),
                  'aria-label': `Request ${whole(row.number)}, ${whole(row.total)} tokens`,
                },
                whole(row.number),
              ),
            ),
            ...cells(row),
          ),
        ),
      ),
      total > 20 &&
        el(
          'div',
          { class: 'pager' },
          el('button', { type: 'button', 'data-key': 'newest', disabled: follows, on: { click: shift(Infinity) } }, 'Newest'),
          el('button', { type: 'button', 'data-key': 'newer', disabled: end >= total, on: { click: shift(end + 20) } }, 'Newer'),
          el('button', { type: 'button', 'data-key': 'older', disabled: end <= 20, on: { click: shift(end - 20) } }, 'Older'),
          el('span', {}, `of ${whole(total)}`),
        ),
    );
    if (focus) list.querySelector('tr.on button')?.focus();
  }
  async function open(number, focus) {
    if (number < 1 || number > total) return;
    chosen = number;
    const page = rows.some((row) => row.number === number);
    if (!page) {
      follows = false;
      before = Math.min(total, number + 10);
    }
    await load(focus);
    await showRequest();
  }
  async function showRequest() {
    const mine = chosen,
      row = rows.find((each) => each.number === mine);
    if (!row) return;
    const body = el('div', { class: 'talk' });
    const step = (by, words, sign) =>
      el('button', { type: 'button', 'aria-label': words, disabled: mine + by < 1 || mine + by > total, 'data-key': words, on: { click: () => open(mine + by) } }, sign);
    redraw(
      panel,
      el(
        'header',
        {},
        el('h3', {}, `Request ${whole(mine)} of ${whole(total)}`),
        el(
          'div',
          { class: 'tools' },
          step(-1, 'The request before', '←'),
          step(1, 'The next request', '→'),
          choice(
            'What is shown',
            [
              ['diff', 'Difference'],
              ['client', 'From the client'],
              ['sent', 'As forwarded'],
            ],
            form,
            (value) => {
              form = value;
              fillBody();
            },
          ),
        ),
      ),
      facts([
        ['record', whole(row.head)],
        ['at', stamp(row.time) + ' UTC'],
        ...(row.client ? [['client', row.client]] : []),
        ['model', row.model || '–'],
        [row.reported ? 'tokens, reported' : 'tokens, measured', whole(row.total)],
        ['from the cache', row.input ? `${whole(row.read)} (${percent(share(row))})` : '–'],
        ...(row.missed ? [['cache miss', `${whole(row.missed)}: ${row.miss}`]] : []),
        ['output', row.reported ? whole(row.output) : '–'],
        ['cost', cost(row)],
      ]),
      body,
    );
    const found = await ask('request', { name, head: row.head });
    const fixed = [
      [found.system, 'system prompt'],
      [found.tools, 'tools'],
    ].filter(([ref]) => ref);
    function fillBody() {
      const list = { diff: found.stretches, client: sides(found.stretches, 'client'), sent: sides(found.stretches, 'sent') }[form];
      const changes = found.stretches.some((each) => each.state !== 'kept');
      body.replaceChildren();
      filled(body, {}, [
        fixed.map(([ref, words]) => folded(words, () => each(texts, [ref], 0, true), 'system')),
        form === 'diff' && !changes && el('p', { class: 'note' }, 'Nothing was edited: the messages were forwarded as the client sent them.'),
        form === 'diff' ? stretches(texts, list, found.labels) : folded(many(list.length, 'message'), () => some(texts, list, 0, 'kept')),
      ]);
      if (form !== 'diff') body.lastChild.open = true;
    }
    if (mine === chosen) fillBody();
  }
  list.addEventListener('keydown', (event) => {
    const by = { ArrowDown: -1, ArrowUp: 1 }[event.key];
    if (!by || !chosen) return;
    event.preventDefault();
    open(chosen + by, true);
  });
  const node = section(
    'requests',
    'Every request',
    null,
    el('p', { class: 'soft aside' }, 'The messages as the log has them: those the client sent, and those that were forwarded.'),
    el('div', { class: 'pair' }, list, panel),
  );
  return {
    node,
    open: (number) => open(number),
    /* Rows that have no number yet and cannot be opened, until the log is read. */
    preview(newest) {
      redraw(list, table(heads().slice(1), newest.map((row) => el('tr', {}, ...cells(row)))));
    },
    /* Who looks at the newest request goes on to the next one; any other choice stays. */
    async update(newest) {
      const moves = newest.total > total && chosen === total && !panel.contains(document.activeElement);
      if (follows) {
        if (moves) chosen = newest.total;
        await load(false, newest);
        if (moves) await showRequest();
      } else {
        if (newest.total !== total) await load();
        if (moves) await open(total);
      }
    },
  };
}
const sides = (found, side) =>
  found.flatMap(({ state, refs, pairs }) =>
    state === 'changed'
      ? pairs.map((pair) => pair[side === 'client' ? 0 : 1])
      : state === (side === 'client' ? 'come' : 'gone')
        ? []
        : refs,
  );

/* Looking for words in everything that was said, also in what left the view. */
function recallPart(name) {
  const field = el('input', { type: 'search', 'aria-label': 'Words, or ids like m12', placeholder: 'Words, or ids like m12..m20' });
  const found = el('div', { id: 'recalled', 'aria-live': 'polite' });
  async function look(words, offset) {
    const answer = await ask('recall', { name, words, offset });
    const nodes = [el('pre', { tabindex: 0, 'aria-label': 'What was found' }, answer.text)];
    if (answer.more) {
      const more = el('button', { type: 'button' }, 'More');
      more.addEventListener('click', () => look(answer.more, answer.offset));
      nodes.push(more);
    }
    found.replaceChildren(...nodes);
  }
  return section(
    'recall',
    'Recall',
    null,
    el('p', { class: 'soft aside' }, 'Search everything that was said, also what is no longer in the view.'),
    el(
      'form',
      {
        class: 'find',
        role: 'search',
        on: {
          submit: (event) => {
            event.preventDefault();
            look(field.value, 0).catch((failure) => found.replaceChildren(el('p', { class: 'note', role: 'alert' }, failure.message)));
          },
        },
      },
      field,
      el('button', { type: 'submit' }, 'Search'),
    ),
    found,
  );
}

showSession().catch(failed);
