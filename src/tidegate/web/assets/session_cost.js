/* What it cost. */

const PAID = [
  ['fresh input', 'fresh', 0],
  ['written to the cache', 'kept', 2],
  ['read from the cache', 'framing', 1],
  ['output', 'said', 3],
];

function costSection(page, data, at, choose, listeners) {
  const { requests, beside } = data;
  const priced = requests.some((request) => request.priced);
  if (!requests.some((request) => request.input)) {
    page.append(
      section(
        'cost',
        'What it cost',
        null,
        el('p', { class: 'note' }, 'No provider reported what these requests cost.'),
      ),
    );
    return;
  }
  const amounts = (request) =>
    priced
      ? PAID.map(([, , column]) => request.paid[column])
      : [Math.max(0, request.input - request.read - request.written), request.written, request.read, request.output];
  const each = requests.map(amounts);
  const sums = each.map(
    (
      (sum) => (row) =>
        (sum = sum.map((value, column) => value + row[column]))
    )([0, 0, 0, 0]),
  );
  let way = 'each';
  const money = (value) => (priced ? dollars(value, value && value < 0.01 ? 4 : value < 10 ? 2 : 0) : short(value));
  const frame = el('div', { class: 'chart' });
  const words = el('p', { class: 'readout', id: 'cost-readout' });
  const legend = el(
    'ul',
    { class: 'legend' },
    PAID.map(([name, tone]) => el('li', {}, el('span', { class: 'swatch ' + tone }), name)),
  );
  const drawn = chart(frame, () => {
    const rows = way === 'each' ? each : sums;
    const top = Math.max(...rows.map(sumOf), priced ? 1e-6 : 1);
    return {
      height: 170,
      left: 60,
      top: 22,
      x: {
        from: data.first + 1,
        to: data.first + requests.length + 1,
        show: (value) => (Number.isInteger(value) ? whole(value) : ''),
        title: 'requests',
      },
      y: { from: 0, to: top * 1.04, show: money, title: priced ? 'US dollars' : 'tokens', ticks: ticks(0, top, 3) },
      draw(layer, sx, sy) {
        stack(
          layer,
          sx,
          sy,
          rows.map((_, place) => data.first + place + 1),
          data.first + requests.length + 1,
          rows,
          PAID.map(([, tone]) => tone),
        );
        layer.append(svg('line', { class: 'cursor', id: 'cost-cursor' }));
      },
      after: mark,
    };
  });
  function mark() {
    const request = requests[at.request],
      node = byId('cost-cursor');
    if (!drawn.box || !request || !node) return;
    const x = Math.round(drawn.sx(data.first + at.request + 1.5));
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: drawn.box.top - 4, y2: drawn.box.base }))
      node.setAttribute(name, value);
    words.textContent = `Request ${data.number(at.request)}: ${cost(request)}, of ${whole(request.input)} tokens read ${percent(share(request))} from the cache; ${dollars(request.so_far)} so far.`;
    if (!priced)
      words.textContent = `Request ${data.number(at.request)}: ${whole(request.input)} tokens read, ${percent(share(request))} of them from the cache.`;
  }
  frame.addEventListener('click', (event) =>
    choose(
      'request',
      Math.min(
        Math.max(Math.floor(drawn.unx(event.clientX - frame.getBoundingClientRect().left)) - 1 - data.first, 0),
        requests.length - 1,
      ),
    ),
  );
  listeners.request.push(mark);
  const unpriced = [
    ...new Set(
      requests
        .filter((request) => request.input && !request.priced)
        .map((request) => request.model || 'a model without a name'),
    ),
  ];
  page.append(
    section(
      'cost',
      'What it cost',
      choice(
        'Cost',
        [
          ['each', 'Per call'],
          ['sum', 'So far'],
        ],
        way,
        (value) => {
          way = value;
          drawn.redraw();
        },
      ),
      el(
        'figure',
        {},
        frame,
        legend,
        words,
        el(
          'figcaption',
          {},
          (priced
            ? 'Tokens as the provider reported them, at the list prices of the catalog; the provider’s bill is the truth.'
            : 'Tokens as the provider reported them.') +
            (unpriced.length
              ? ` The prices of ${unpriced.join(', ')} are not known${priced ? '; these calls count as nothing' : ''}.`
              : '') +
            (beside.calls
              ? ` Beside the conversation (summaries, subagents, interrupted answers) ${many(beside.calls, 'call')} took ${whole(beside.tokens)} tokens${beside.dollars ? ', ' + dollars(beside.dollars) : ''}; they are in the sum at the top and not in this picture.`
              : ''),
        ),
      ),
    ),
  );
}
