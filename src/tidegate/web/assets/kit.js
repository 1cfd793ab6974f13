/* Small parts for every page. Text becomes text nodes and nothing else; no string is ever parsed as HTML. */

const byId = (id) => document.getElementById(id);

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}
const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

const whole = (number) => Math.round(number).toLocaleString('en-US');
const percent = (share, digits = 1) => (100 * share).toFixed(digits) + '%';
const dollars = (amount, digits = 4) =>
  '$' + amount.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
function short(number) {
  const size = Math.abs(number);
  if (size >= 1e6) return +(number / 1e6).toPrecision(3) + 'M';
  if (size >= 1e3) return +(number / 1e3).toPrecision(3) + 'k';
  return String(+number.toPrecision(3));
}
const two = (number) => String(number).padStart(2, '0');
function stamp(seconds, withDay = true) {
  const at = new Date(seconds * 1000);
  const clock = two(at.getUTCHours()) + ':' + two(at.getUTCMinutes()) + ':' + two(at.getUTCSeconds());
  if (!withDay) return clock;
  return at.getUTCFullYear() + '-' + two(at.getUTCMonth() + 1) + '-' + two(at.getUTCDate()) + ' ' + clock;
}
const many = (count, one, more) => whole(count) + ' ' + (count === 1 ? one : more || one + 's');

async function unpack(id) {
  const letters = atob(byId(id).textContent);
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return JSON.parse(await new Response(stream).text());
}

/* A link that saves data made when it is asked for. */
function saver(words, file, type, make) {
  return el(
    'a',
    {
      class: 'button',
      href: '#',
      download: file,
      on: {
        click: (event) => {
          const link = event.currentTarget;
          if (link.href.startsWith('blob:')) URL.revokeObjectURL(link.href);
          link.href = URL.createObjectURL(new Blob([make()], { type }));
        },
      },
    },
    words,
  );
}
function csv(rows) {
  const cell = (value) => {
    let text = value === null || value === undefined ? '' : String(value);
    if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text))
      text = "'" + text; /* a sheet would take it for a formula */
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  return rows.map((row) => row.map(cell).join(',')).join('\r\n') + '\r\n';
}

/* One of a few, as radio buttons in a row. */
let choices = 0;
function choice(label, options, chosen, act) {
  const name = 'choice' + ++choices;
  return el(
    'fieldset',
    { class: 'choice', 'aria-label': label },
    options.map(([value, words]) =>
      el(
        'label',
        {},
        el('input', { type: 'radio', name, value, checked: value === chosen, on: { change: () => act(value) } }),
        words,
      ),
    ),
  );
}

/* A table shown a page at a time. With `choose` one of its rows is chosen: by click, by its button, by the arrow keys. */
function picker(host, { caption, heads, rows, size, choose, empty }) {
  let page = 0,
    chosen = -1;
  const body = el('tbody');
  const where = el('span');
  const turn = (by) => () => {
    page += by;
    fill();
  };
  const back = el('button', { type: 'button', on: { click: turn(-1) } }, 'Earlier');
  const on = el('button', { type: 'button', on: { click: turn(1) } }, 'Later');
  const table = el(
    'table',
    {},
    el('caption', { class: 'hidden' }, caption),
    el(
      'thead',
      {},
      el(
        'tr',
        {},
        heads.map(([words, kind]) => el('th', { scope: 'col', class: kind }, words)),
      ),
    ),
    body,
  );
  function fill(focus) {
    const last = Math.max(0, Math.ceil(rows.length / size) - 1);
    page = Math.min(Math.max(page, 0), last);
    const from = page * size,
      to = Math.min(rows.length, from + size);
    const reachable = chosen >= from && chosen < to ? chosen : from;
    body.replaceChildren();
    for (let place = from; place < to; place++) {
      const cells = rows[place]();
      if (!choose) {
        body.append(
          el(
            'tr',
            {},
            cells.map((cell, at) => el('td', { class: heads[at][1] }, cell)),
          ),
        );
        continue;
      }
      const [first, ...rest] = cells;
      const button = el(
        'button',
        {
          type: 'button',
          class: 'row',
          tabindex: place === reachable ? 0 : -1,
          'aria-pressed': String(place === chosen),
          'aria-label': first[1],
        },
        first[0],
      );
      body.append(
        el(
          'tr',
          { class: 'pick' + (place === chosen ? ' on' : ''), on: { click: () => choose(place) } },
          el('td', { class: heads[0][1] }, button),
          rest.map((cell, at) => el('td', { class: heads[at + 1][1] }, cell)),
        ),
      );
      if (focus && place === chosen) button.focus();
    }
    if (!rows.length) body.append(el('tr', {}, el('td', { colspan: heads.length, class: 'soft' }, empty)));
    back.disabled = page === 0;
    on.disabled = page === last;
    where.textContent = rows.length ? `${whole(from + 1)}–${whole(to)} of ${whole(rows.length)}` : '';
  }
  body.addEventListener('keydown', (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !rows.length || !choose) return;
    event.preventDefault();
    choose(Math.min(Math.max((chosen < 0 ? page * size : chosen) + by, 0), rows.length - 1), true);
  });
  filled(host, {}, [
    el('div', { class: 'scroll' }, table),
    rows.length > size && el('div', { class: 'pager' }, back, on, where),
  ]);
  fill();
  return (place, focus) => {
    chosen = place;
    page = Math.floor(place / size);
    fill(focus);
  };
}

const sumOf = (row) => row.reduce((sum, part) => sum + part, 0);

/* A part of the page: its title, what can be chosen in it, what it shows. */
function section(id, title, tools, ...inside) {
  return el(
    'section',
    { id, 'aria-labelledby': id + '-title' },
    el('header', {}, el('h2', { id: id + '-title' }, title), tools && el('div', { class: 'tools' }, tools)),
    inside,
  );
}
