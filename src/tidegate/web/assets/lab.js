/* The lab's page. */

async function show() {
  const data = await unpack('main');
  const lab = {
    data,
    window: 0,
    measure: Object.fromEntries(data.measures.map((each) => [each.key, each])),
    session: Object.fromEntries(data.sessions.map((each) => [each.key, each])),
    place: Object.fromEntries(data.policies.map((each, place) => [each.key, place])),
    on: new Set(data.policies.slice(0, 4).map((each) => each.key)),
    chosen: data.sessions[0]?.key,
    fills: [],
    get at() {
      return data.windows[this.window];
    },
    refill(but) {
      this.fills.forEach((fill) => fill !== but && fill());
    },
  };
  lab.on.add(data.baseline);
  const page = byId('page');
  about(page, lab);
  frontierSection(page, lab);
  equalSection(page, lab);
  tableSection(page, lab);
  pairedSection(page, lab);
  verdictSection(page, lab);
  scatterSection(page, lab);
  sessionSection(page, lab);
  listSection(page, lab);
  foot(lab);
  lab.refill();
  document.documentElement.dataset.ready = 'yes';
}

/* --- what this is, and what is shown of it ------------------------------------------------------------------------ */

const COUNTED = { beyond: 'beyond the window', far: 'far references', anchors: 'far edit anchors' };
const plainly = (value) =>
  value !== null && typeof value === 'object' && !Array.isArray(value)
    ? Object.entries(value)
        .map(([name, inner]) => `${name} ${plainly(inner)}`)
        .join(', ')
    : [value].flat().join(', ');

function about(page, lab) {
  const { data } = lab;
  const counts = el('dl', { class: 'figures', id: 'counts' });
  lab.fills.push(() =>
    counts.replaceChildren(
      ...Object.entries({ window: lab.at.window, ...lab.at.counts }).map(([name, value]) =>
        el('div', {}, el('dt', {}, COUNTED[name] || name), el('dd', {}, whole(value))),
      ),
    ),
  );
  const windows = data.windows.map((each, place) => [String(place), whole(each.window)]);
  page.append(
    counts,
    ...(data.notes || []).map((words) => el('p', { class: 'aside' }, words)),
    el(
      'details',
      { class: 'aside' },
      el('summary', {}, 'How it was measured'),
      el(
        'dl',
        { class: 'facts' },
        Object.entries(data.setup || {}).map(([name, value]) =>
          el('div', {}, el('dt', {}, name), el('dd', {}, plainly(value))),
        ),
      ),
    ),
    el(
      'div',
      { class: 'tools bar-of-choices' },
      windows.length > 1 && [
        el('span', { class: 'soft' }, 'Window'),
        choice('Window', windows, '0', (value) => {
          lab.window = +value;
          lab.refill();
        }),
      ],
      el(
        'fieldset',
        { class: 'policies', id: 'policies' },
        el('legend', {}, 'Policies to look at closely'),
        data.policies.map((policy, place) =>
          el(
            'label',
            { title: policy.about },
            el('input', {
              type: 'checkbox',
              value: policy.key,
              checked: lab.on.has(policy.key),
              on: {
                change: (event) => {
                  lab.on[event.target.checked ? 'add' : 'delete'](policy.key);
                  lab.refill();
                },
              },
            }),
            el('span', { class: 'swatch ' + tone(place) + hollow(place) }),
            policy.name,
            policy.kind !== 'preset' && el('small', {}, policy.kind),
          ),
        ),
      ),
    ),
  );
}

function foot(lab) {
  const { data } = lab;
  async function everything() {
    const windows = await Promise.all(
      data.windows.map(async ({ where, ...window }) => {
        const found = Object.assign({}, ...(await Promise.all([...new Set(Object.values(where))].map(unpack))));
        const all = (kind) => Object.values(found).flatMap((each) => each[kind]);
        return { ...window, ...(Object.keys(found).length ? { curves: all('curves'), lost: all('lost') } : {}) };
      }),
    );
    return JSON.stringify({ ...data, windows });
  }
  const save = el(
    'button',
    {
      type: 'button',
      on: {
        click: async () => {
          const link = el('a', {
            download: 'lab.json',
            href: URL.createObjectURL(new Blob([await everything()], { type: 'application/json' })),
          });
          link.click();
          URL.revokeObjectURL(link.href);
        },
      },
    },
    'All of it as JSON',
  );
  byId('foot').append(
    el('div', { class: 'tools' }, save),
    el('p', {}, `Written by tidegate ${data.tidegate}, ${data.made}; nothing in this file reaches a network.`),
    el(
      'dl',
      { class: 'defined' },
      data.policies.map((policy) => [
        el('dt', {}, policy.name, el('span', { class: 'soft' }, ` (${policy.kind})`)),
        el('dd', {}, policy.about || '–'),
      ]),
    ),
  );
}

show().catch((failure) => {
  byId('page').append(el('p', { class: 'note', role: 'alert' }, 'This page could not be drawn: ' + failure.message));
  throw failure;
});
