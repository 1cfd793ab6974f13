/* The window over time. */

/* Neighboring requests of the same client, if the session has several: [first place, client]. */
const turnsOf = (requests) =>
  requests.flatMap(({ client }, place) => (client && client !== requests[place - 1]?.client ? [[place, client]] : []));

function windowSection(page, data, used, at, choose, listeners) {
  const { points, requests, changes } = data;
  const columns = used.map((name) => data.categories.indexOf(name));
  const rows = points.parts.map((parts) => columns.map((column) => parts[column]));
  const top = Math.max(...rows.map(sumOf), 1),
    most = Math.max(...points.window, 0);
  const near = most > 0 && most < top * 8;
  const roof = Math.max(top * 1.1, near ? most * 1.1 : 0);
  const turns = turnsOf(requests),
    clients = [...new Set(turns.map(([, client]) => client))];
  let axis = 'seq',
    zoom = 1;
  const xOf = (thing) => (axis === 'seq' ? (thing.head ?? thing.seq) : thing.time);
  const frame = el('div', {
    class: 'chart',
    tabindex: 0,
    role: 'slider',
    'aria-label': 'The window over time; arrow keys go from request to request',
    'aria-valuemin': 1,
    'aria-valuemax': Math.max(1, requests.length),
  });
  const legend = el('ul', { class: 'legend', 'aria-label': 'What fills the window' });
  const readout = el('p', { class: 'readout soft', id: 'readout' });

  const drawn = chart(frame, (width) => {
    const end = Math.max(axis === 'seq' ? data.head + 1 : (points.time.at(-1) ?? 0), 1);
    const all = end - (axis === 'seq' ? 0 : (points.time[0] ?? 0)) || 1,
      shown = all / zoom;
    const middle = requests[at.request] ? xOf(requests[at.request]) : end;
    const to = Math.min(end, Math.max(end - all + shown, middle + shown / 2)),
      from = to - shown;
    const close =
      zoom > 1 &&
      requests.filter((request, place) => xOf(requests[place + 1] ?? request) >= from && xOf(request) <= to);
    const xs = close ? close.map(xOf) : points[axis],
      limits = close ? close.map((request) => request.window) : points.window;
    const heights = close ? close.map((request) => columns.map((column) => request.parts[column])) : rows;
    return {
      height: width < 520 ? 260 : 360,
      top: clients.length ? 54 : 34,
      x: {
        from,
        to,
        title: axis === 'seq' ? 'records of the log' : 'time (UTC)',
        show: axis === 'seq' ? whole : (t) => clock(t, to - from),
        ticks: axis === 'seq' ? undefined : timeTicks(from, to, width / 120),
      },
      y: { from: 0, to: roof, show: short, title: 'tokens' },
      draw(layer, sx, sy, box) {
        stack(layer, sx, sy, xs, end, heights, used.map(tint));
        turns.forEach(([place, client], turn) => {
          const [x, next] = [place, turns[turn + 1]?.[0]].map((at) => sx(requests[at] ? xOf(requests[at]) : end));
          const left = Math.max(x, box.left),
            width = Math.min(next, box.left + box.w) - left - 1;
          if (width < 1) return;
          const tone = `lane s${(clients.indexOf(client) % 12) + 1}`;
          layer.append(
            svg('rect', { class: tone, x: left, y: box.top - 34, width, height: 15 }, svg('title', {}, client)),
          );
          if (width > client.length * 6.6 + 8) layer.append(svg('text', { class: 'lane-name', x: left + 5, y: box.top - 22.5 }, client));
        });
        const within = changes.filter((change) => xOf(change) >= from && xOf(change) <= to).length;
        const dense = within > box.w / 9,
          falls = svg('g', { opacity: dense ? 0.5 : 1 }),
          pins = svg('g', { id: 'pins' });
        let left = -9;
        changes.forEach((change, place) => {
          const x = Math.round(sx(xOf(change))),
            on = place === at.change;
          if (x < box.left || x > box.left + box.w) return;
          if (change.request_before > change.request_after)
            falls.append(
              svg('line', { class: 'fall', x1: x, x2: x, y1: Math.max(sy(change.request_before), box.top), y2: Math.max(sy(change.request_after), box.top) }),
            );
          if (!on && dense && x - left < 2) return;
          left = x;
          const kind = change.is_warning ? ' bad' : change.is_undone || !change.is_edit ? ' undone' : '';
          pins.append(
            svg(
              'path',
              {
                class: 'pin' + kind + (on ? ' on' : ''),
                d: dense && !on ? `M${x} ${box.top - 14}h1v8h-1z` : `M${x - 4} ${box.top - 14}h8l-4 8z`,
                on: {
                  click: (event) => {
                    event.stopPropagation();
                    choose('change', place);
                    byId('changes').scrollIntoView();
                  },
                },
              },
              svg('title', {}, label(change)),
            ),
          );
        });
        layer.append(falls);
        if (near) {
          steps(layer, sx, sy, xs, end, limits, 'limit');
          const last = limits.at(-1) || most;
          layer.append(
            svg(
              'text',
              { class: 'limit-name', x: box.left + box.w, y: sy(last) - 6, 'text-anchor': 'end' },
              'window ' + whole(last),
            ),
          );
        }
        layer.append(
          pins,
          svg('line', { class: 'cursor faint', id: 'hover' }),
          svg('line', { class: 'cursor', id: 'cursor' }),
        );
      },
      after: mark,
    };
  });
  function mark() {
    if (!drawn.box) return;
    for (const [id, place] of [
      ['cursor', at.request],
      ['hover', at.hover],
    ]) {
      const node = byId(id);
      if (!node) continue;
      const x = place < 0 ? -99 : Math.round(drawn.sx(xOf(requests[place])));
      for (const [name, value] of Object.entries({ x1: x, x2: x, y1: drawn.box.top - 4, y2: drawn.box.base }))
        node.setAttribute(name, value);
      node.setAttribute('visibility', place < 0 ? 'hidden' : 'visible');
    }
    tell(at.hover >= 0 ? at.hover : at.request);
  }
  function tell(place) {
    const request = requests[place];
    legend.replaceChildren(
      ...used.map((name, column) =>
        el(
          'li',
          {},
          el('span', { class: 'swatch ' + tint(name) }),
          name,
          request && el('b', {}, whole(request.parts[columns[column]])),
        ),
      ),
    );
    if (!request) return;
    const words =
      `Request ${data.number(place)} of ${data.count}: ${whole(request.total)} tokens` +
      (request.reported ? '' : ' (measured, not reported)') +
      ` in ${many(request.messages, 'message')}, ${stamp(request.time)} UTC`;
    readout.textContent = words;
    frame.setAttribute('aria-valuenow', place + 1);
    frame.setAttribute('aria-valuetext', words);
  }
  const order = () => requests.map(xOf);
  const under = (event) => nearest(order(), drawn.unx(event.clientX - frame.getBoundingClientRect().left));
  frame.addEventListener('pointermove', (event) => {
    if (requests.length) {
      at.hover = under(event);
      mark();
    }
  });
  frame.addEventListener('pointerleave', () => {
    at.hover = -1;
    mark();
  });
  frame.addEventListener('click', (event) => {
    if (requests.length) choose('request', under(event));
  });
  frame.addEventListener('keydown', (event) => {
    const last = requests.length - 1,
      far = Math.max(1, Math.round(last / 20));
    const to = {
      ArrowLeft: at.request - 1,
      ArrowDown: at.request - 1,
      ArrowRight: at.request + 1,
      ArrowUp: at.request + 1,
      PageDown: at.request - far,
      PageUp: at.request + far,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose('request', Math.min(Math.max(to, 0), last));
  });
  const scale = (by, words, sign) =>
    el(
      'button',
      {
        type: 'button',
        'aria-label': words,
        on: {
          click: () => {
            zoom = Math.min(Math.max(zoom * by, 1), Math.max(1, data.head / 8));
            drawn.redraw();
          },
        },
      },
      sign,
    );
  listeners.request.push(() => (zoom > 1 ? drawn.redraw() : mark()));
  listeners.change.push(() => drawn.redraw());
  const edits = data.older + changes.filter((change) => change.is_edit).length;
  page.append(
    section(
      'window',
      'The window over time',
      [
        scale(0.5, 'Show more of the session', '−'),
        scale(2, 'Look closer at the chosen request', '+'),
        choice(
          'What the horizontal axis shows',
          [
            ['seq', 'By record'],
            ['time', 'By time'],
          ],
          axis,
          (value) => {
            axis = value;
            drawn.redraw();
          },
        ),
      ],
      el(
        'figure',
        {},
        frame,
        legend,
        readout,
        el(
          'figcaption',
          {},
          (clients.length ? 'The strip above says which client made the requests. ' : '') +
            `Each request with the tokens it weighed, by category. Where the provider reported the size of a request, that is its height and the shares are scaled to it; else it is our own count. ▾ marks ${many(edits, 'compaction')}` +
            (data.older + changes.length > edits ? ', hollow where undone, or an undo, a clear or the like' : '') +
            '; the thin line under it falls from what would have been sent to what was left. ' +
            (most
              ? near
                ? 'The dashed line is the window.'
                : `The window, ${whole(most)} tokens, lies far above the picture.`
              : 'The window of this model is not known here: name it with --window to see it.'),
        ),
      ),
    ),
  );
}
function clock(seconds, span) {
  const words = stamp(seconds);
  return span > 4 * 86400
    ? words.slice(5, 10)
    : span > 86400
      ? words.slice(5, 16)
      : words.slice(11, span > 600 ? 16 : 19);
}
const label = (change) =>
  `${change.title}: ${whole(change.tokens_before)} → ${whole(change.tokens_after)} tokens${change.is_undone ? ', undone' : ''}`;
