/* The lab's page, session by session. */

function scatterSection(page, lab) {
  const { state, tools } = axes(lab, () => again());
  const frame = el('div', { class: 'chart', role: 'img' }),
    meaning = el('div'),
    readout = el('p', { class: 'readout' });
  let points = [];
  const drawn = chart(frame, (width) => {
    const mx = lab.measure[state.x],
      my = lab.measure[state.y];
    points = lab.at.rows.filter(
      (row) => lab.on.has(row.policy) && Number.isFinite(row.values[state.x]) && Number.isFinite(row.values[state.y]),
    );
    return {
      height: width < 520 ? 300 : 360,
      top: 26,
      left: 60,
      x: {
        ...around(
          points.map((row) => row.values[state.x]),
          mx.unit,
        ),
        title: mx.name,
      },
      y: {
        ...around(
          points.map((row) => row.values[state.y]),
          my.unit,
        ),
        title: my.name,
      },
      draw(layer, sx, sy) {
        for (const row of points) {
          const mine = row.session === lab.chosen;
          layer.append(
            svg(
              'circle',
              {
                class: `dot ${tone(lab.place[row.policy])}${hollow(lab.place[row.policy])}${mine ? ' picked' : ''}`,
                cx: sx(row.values[state.x]),
                cy: sy(row.values[state.y]),
                r: mine ? 7 : 4,
                on: { click: () => choose(row.session) },
              },
              svg('title', {}, `${lab.session[row.session]?.name}, ${row.policy}`),
            ),
          );
        }
      },
    };
  });
  function choose(key) {
    lab.chosen = key;
    lab.refill();
  }
  function again() {
    drawn.redraw();
    const mx = lab.measure[state.x],
      my = lab.measure[state.y];
    frame.setAttribute('aria-label', `${my.name} against ${mx.name}, one point for each session and policy`);
    meaning.replaceChildren(defined([my, mx]));
    const mine = lab.at.rows.filter((row) => row.session === lab.chosen && lab.on.has(row.policy));
    readout.textContent =
      `${lab.session[lab.chosen]?.name ?? 'No session'}: ` +
      mine
        .map(
          (row) => `${row.policy} ${written(row.values[state.y], my.unit)} at ${written(row.values[state.x], mx.unit)}`,
        )
        .join('; ');
  }
  lab.fills.push(again);
  const rows = () => {
    const keys = lab.data.measures.map((each) => each.key);
    return [
      ['window', 'session', 'name', 'project', 'policy', 'error', ...keys],
      ...lab.data.windows.flatMap((window) =>
        window.rows.map((row) => [
          window.window,
          row.session,
          lab.session[row.session]?.name,
          lab.session[row.session]?.project,
          row.policy,
          row.error,
          ...keys.map((key) => row.values[key]),
        ]),
      ),
    ];
  };
  page.append(
    section(
      'scatter',
      'Every session',
      [tools, saver('Sessions as CSV', 'sessions.csv', 'text/csv', () => csv(rows()))],
      el(
        'figure',
        {},
        frame,
        readout,
        el(
          'figcaption',
          {},
          'One point for each session under each policy looked at closely. Choose one to see it below.',
        ),
      ),
      meaning,
    ),
  );
}

function sessionSection(page, lab) {
  const charts = el('div', { class: 'multiples' }),
    lost = el('div'),
    pick = el('div', { class: 'tools' }),
    head = el('p', { class: 'soft aside' });
  const blocks = new Map();
  async function detail() {
    const name = lab.at.where[lab.chosen];
    if (!name) return { curves: [], lost: [] };
    if (!blocks.has(name)) blocks.set(name, unpack(name));
    return (await blocks.get(name))[lab.chosen];
  }
  let turn = 0,
    now = { curves: [], lost: [] };
  async function fill() {
    const mine = ++turn,
      known = lab.data.sessions.filter((each) => lab.at.rows.some((row) => row.session === each.key));
    if (!known.some((each) => each.key === lab.chosen)) lab.chosen = known[0]?.key;
    const session = lab.session[lab.chosen];
    if (!session) return;
    pick.replaceChildren(
      selector(
        'session',
        known.map((each) => [each.key, each.name]),
        lab.chosen,
        (value) => {
          lab.chosen = value;
          lab.refill();
        },
      ),
    );
    head.textContent = [
      session.project,
      session.agent,
      many(session.calls, 'request'),
      whole(session.tokens) + ' tokens in all',
    ]
      .filter(Boolean)
      .join(' · ');
    const found = await detail();
    if (mine !== turn) return;
    now = found;
    const curves = found.curves.filter((each) => lab.on.has(each.policy));
    const top = Math.max(lab.at.window, ...curves.flatMap((each) => each.tokens.filter(Number.isFinite))),
      end = Math.max(1, ...curves.flatMap((each) => each.at)) + 1;
    charts.replaceChildren(
      ...curves.map((each) =>
        multiple(
          lab,
          each,
          found.lost.find((other) => other.policy === each.policy),
          top,
          end,
        ),
      ),
    );
    if (!curves.length)
      charts.append(el('p', { class: 'note' }, 'The requests over time were not kept in this report.'));
    losses(
      lost,
      lab,
      found.lost.filter((each) => lab.on.has(each.policy)),
    );
  }
  lab.fills.push(fill);
  page.append(
    section(
      'session',
      'One session, side by side',
      [
        pick,
        saver('Requests as CSV', 'requests.csv', 'text/csv', () => csv(requestRows(lab, now.curves))),
        saver('Losses as CSV', 'lost.csv', 'text/csv', () => csv(lostRows(lab, now.lost))),
      ],
      head,
      charts,
      el(
        'p',
        { class: 'soft aside' },
        'The tokens of each request over the messages of the session; dark is what stood there before, unchanged, and could come from the cache. The dashed line is the window. ▾ marks requests that were edited, red ticks below where something was missing that the agent then used.',
      ),
      el('h3', { id: 'lost-title' }, 'What was lost where'),
      lost,
      defined(['far', 'anchors'].map((key) => lab.measure[key]).filter(Boolean)),
    ),
  );
}
/* Of the session that is shown, under all policies. */
function requestRows(lab, curves) {
  const rows = [['window', 'session', 'policy', 'message', 'tokens', 'from cache', 'edited']];
  for (const { session, policy, at, tokens, read, edits } of curves) {
    const edited = new Set(edits);
    at.forEach((place, n) =>
      rows.push([lab.at.window, session, policy, place, tokens[n], read?.[n], edited.has(place)]),
    );
  }
  return rows;
}
function lostRows(lab, lost) {
  const rows = [['window', 'session', 'policy', 'message', 'measure', 'what', 'seen', 'recoverable']];
  for (const { session, policy, items } of lost)
    for (const { at, measure, what, seen, recoverable } of items)
      rows.push([lab.at.window, session, policy, at, measure, what, seen, recoverable]);
  return rows;
}
function multiple(lab, curve, lost, top, end) {
  const values = lab.at.rows.find((row) => row.policy === curve.policy && row.session === curve.session)?.values || {};
  const frame = el('div', {
    class: 'chart',
    role: 'img',
    'aria-label': `Tokens of each request under ${curve.policy}`,
  });
  const some = [lab.data.frontier?.y, lab.data.frontier?.x]
    .filter((key) => key in values)
    .map((key) => `${lab.measure[key].name} ${written(values[key], lab.measure[key].unit)}`);
  const host = el(
    'figure',
    { 'data-policy': curve.policy },
    el('h3', {}, el('span', { class: 'swatch ' + tone(lab.place[curve.policy]) }), ' ', curve.policy),
    frame,
    el('figcaption', {}, some.join(' · ')),
  );
  chart(frame, () => ({
    height: 190,
    top: 28,
    left: 46,
    x: { from: 0, to: end, show: whole },
    y: { from: 0, to: top * 1.06, show: short, ticks: ticks(0, top, 3), title: 'tokens' },
    draw(layer, sx, sy, box) {
      const read = curve.read || curve.tokens.map(() => 0);
      const rows = curve.tokens.map((tokens, at) => [
        Math.min(read[at] || 0, tokens || 0),
        Math.max(0, (tokens || 0) - (read[at] || 0)),
      ]);
      const area = svg('g', { class: tone(lab.place[curve.policy]) });
      stack(area, sx, sy, curve.at, end, rows, ['own', 'own pale']);
      layer.append(
        area,
        svg('line', {
          class: 'limit',
          x1: box.left,
          x2: box.left + box.w,
          y1: sy(lab.at.window),
          y2: sy(lab.at.window),
        }),
      );
      for (const at of curve.edits || [])
        layer.append(svg('path', { class: 'pin', d: `M${r1(sx(at)) - 3} ${box.top - 9}h6l-3 6z` }));
      for (const item of lost?.items || [])
        layer.append(
          svg('line', { class: 'lost-tick', x1: sx(item.at), x2: sx(item.at), y1: box.base - 7, y2: box.base }),
        );
    },
  }));
  return host;
}
function losses(host, lab, found) {
  const rows = new Map();
  for (const { policy, items } of found)
    for (const item of items) {
      const key = [item.at, item.measure, item.what].join('\u0000');
      if (!rows.has(key)) rows.set(key, { item, by: new Map() });
      rows.get(key).by.set(policy, item.recoverable);
    }
  const list = [...rows.values()].sort((a, b) => a.item.at - b.item.at);
  const mark = (each, policy) => (!each.by.has(policy) ? '·' : each.by.get(policy) ? 'lost, recallable' : 'lost');
  const more = found.filter((each) => each.more).map((each) => `${each.policy} ${whole(each.more)}`);
  host.replaceChildren();
  picker(host, {
    caption: 'What was lost where',
    size: 15,
    empty: 'Nothing was lost under these policies.',
    heads: [['message', 'n'], ['what', 'what'], ['seen', 'n'], ...found.map((each) => [each.policy, ''])],
    rows: list.map((each) => () => [
      whole(each.item.at),
      [
        el('code', {}, each.item.what),
        ' ',
        el('small', {}, (lab.measure[each.item.measure]?.name || each.item.measure).replace(' kept', '')),
      ],
      each.item.seen === null || each.item.seen === undefined ? '–' : whole(each.item.seen),
      ...found.map((other) => mark(each, other.policy)),
    ]),
  });
  host.append(
    el(
      'p',
      { class: 'soft aside' },
      'Message: where the agent used it; seen: where it last stood. A dot: not lost there.' +
        (more.length ? ` Not listed: ${more.join(', ')} more.` : ''),
    ),
  );
}
