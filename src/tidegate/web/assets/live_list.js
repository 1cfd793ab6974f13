/* The sessions of the gateway. */

async function showList() {
  const boot = await unpack('main');
  const at = new URLSearchParams(location.search);
  let page = Number(at.get('page')) || 0,
    words = at.get('words') || '';
  const host = el('div', { id: 'sessions' });
  const search = el('input', {
    type: 'search',
    id: 'words',
    value: words,
    'aria-label': 'Part of a name',
    placeholder: 'Part of a name',
  });
  byId('page').append(
    el(
      'form',
      {
        class: 'find',
        role: 'search',
        on: {
          submit: (event) => {
            event.preventDefault();
            words = search.value;
            page = 0;
            run();
          },
        },
      },
      search,
      el('button', { type: 'submit' }, 'Find'),
    ),
    host,
    el(
      'p',
      { class: 'soft aside' },
      'Without tidegate: an estimate of the same requests with the whole history. It assumes that a cache that is in use keeps the beginning for five minutes.',
    ),
  );

  const turn = (by) => () => {
    page += by;
    run();
  };
  async function fill() {
    const found = await ask('sessions', { page, words });
    page = found.page;
    const place = new URLSearchParams({ ...(page && { page }), ...(words && { words }) }).toString();
    history.replaceState(null, '', '/ui' + (place ? '?' + place : ''));
    byId('subtitle').textContent =
      many(found.total, 'session') + (found.total > found.roots ? `, ${whole(found.total - found.roots)} of sub-agents` : '');
    redraw(
      host,
      found.rows.length ? table(found.rows, boot) : el('p', { class: 'note' }, words ? 'No name has these letters.' : 'No session yet. Point a client at this gateway.'),
      found.pages > 1 &&
        el(
          'div',
          { class: 'pager' },
          el('button', { type: 'button', 'data-key': 'newer', disabled: page === 0, on: { click: turn(-1) } }, 'Newer'),
          el('button', { type: 'button', 'data-key': 'older', disabled: page >= found.pages - 1, on: { click: turn(1) } }, 'Older'),
          el('span', {}, `page ${whole(page + 1)} of ${whole(found.pages)}`),
        ),
    );
    document.documentElement.dataset.ready = 'yes';
    if (!found.is_read) setTimeout(run, 50); /* the figures of long sessions come in pieces */
  }
  const run = follow({}, fill);
  await run();
  host.addEventListener('keydown', (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    const links = [...host.querySelectorAll('tbody a')],
      next = links[links.indexOf(document.activeElement) + by];
    if (next) {
      event.preventDefault();
      next.focus();
    }
  });
}

function table(rows, boot) {
  const heads = [
    ['session', ''],
    ['model', ''],
    ['window', ''],
    ['requests', 'n'],
    ['cached', 'n'],
    ['cost', 'n'],
    ['without', 'n'],
    ['last used', ''],
  ];
  return el(
    'div',
    { class: 'scroll' },
    el(
      'table',
      { class: 'cards' },
      el('caption', { class: 'hidden' }, 'Sessions, last used first; sub-agents below their session'),
      el('thead', {}, el('tr', {}, heads.map(([name, kind]) => el('th', { scope: 'col', class: kind }, name)))),
      el('tbody', {}, rows.map((row) => line(row, heads, boot))),
    ),
  );
}
function line(row, heads, boot) {
  const figures = row.figures;
  const values = [
    [
      row.depth > 0 && el('span', { class: 'branch', 'aria-hidden': 'true' }, '└ '),
      el('a', { href: sessionLink(row.name), 'data-key': row.name }, row.title || row.name.slice(boot.scope.length)),
      row.depth > 0 && el('span', { class: 'hidden' }, ' (sub-agent)'),
      row.is_running && el('span', { class: 'running' }, 'running'),
      el('small', { class: 'client', title: row.folder || null }, whereFrom(row, boot)),
    ],
    figures.model || '–',
    row.is_read ? filling(figures) : el('span', { class: 'soft' }, 'reading…'),
    whole(figures.requests),
    cached(figures),
    money(figures, figures.dollars),
    money(figures, figures.dollars_without),
    ago(row.used),
  ];
  return el(
    'tr',
    { class: row.is_running ? 'is-running' : null },
    values.map((value, at) =>
      el('td', { class: [heads[at][1], at === 0 && 'session depth' + Math.min(row.depth, 4)].filter(Boolean).join(' '), 'data-name': heads[at][0] }, value),
    ),
  );
}

showList().catch(failed);
