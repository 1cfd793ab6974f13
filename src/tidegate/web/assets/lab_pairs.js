/* Differences. */

function pairedSection(page, lab) {
  const keys = [...new Set(lab.data.windows.flatMap((window) => (window.paired || []).map((each) => each.measure)))];
  if (!keys.length) return;
  let key = keys.includes(lab.data.frontier?.y) ? lab.data.frontier.y : keys[0];
  const frame = el('div', { class: 'chart', role: 'img' }),
    meaning = el('div'),
    table = el('div', { class: 'scroll' });
  const rowsOf = () => (lab.at.paired || []).filter((each) => each.measure === key && Number.isFinite(each.mean));
  const drawn = chart(frame, () => {
    const rows = rowsOf(),
      unit = lab.measure[key].unit;
    const scale = around([0, ...rows.flatMap((each) => [each.mean, each.low, each.high])], unit, true);
    return {
      height: rows.length * 26 + 70,
      left: 12,
      top: 12,
      x: { ...scale, title: `${lab.measure[key].name}: difference from ${lab.data.baseline}` },
      y: { from: 0, to: 1, ticks: [], show: String },
      draw(layer, sx, sy, box) {
        layer.append(svg('line', { class: 'axis', x1: sx(0), x2: sx(0), y1: box.top - 6, y2: box.base }));
        rows.forEach((each, place) => {
          const y = box.top + 16 + place * 26,
            group = svg('g', { class: tone(lab.place[each.policy]) });
          if (Number.isFinite(each.low))
            group.append(svg('line', { class: 'whisker', x1: sx(each.low), x2: sx(each.high), y1: y, y2: y }));
          group.append(
            svg('circle', { class: 'dot' + hollow(lab.place[each.policy]), cx: sx(each.mean), cy: y, r: 5 }),
          );
          const right = sx(each.high ?? each.mean),
            room = right < box.left + box.w * 0.62;
          group.append(
            svg(
              'text',
              {
                class: 'name',
                x: room ? right + 9 : sx(each.low ?? each.mean) - 9,
                y: y + 4,
                'text-anchor': room ? 'start' : 'end',
              },
              lab.data.policies[lab.place[each.policy]].name,
            ),
          );
          layer.append(group);
        });
      },
    };
  });
  function tell() {
    const measure = lab.measure[key],
      unit = measure.unit;
    frame.setAttribute(
      'aria-label',
      `Differences in ${measure.name} from ${lab.data.baseline}; the same figures are in the table below`,
    );
    table.replaceChildren(
      el(
        'table',
        {},
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            ['policy', 'difference', 'interval', 'sessions', 'verdict'].map((words, at) =>
              el('th', { scope: 'col', class: at > 0 && at < 4 ? 'n' : null }, words),
            ),
          ),
        ),
        el(
          'tbody',
          {},
          rowsOf().map((each) =>
            el(
              'tr',
              {},
              el('td', {}, each.policy),
              el('td', { class: 'n' }, signed(each.mean, unit)),
              el('td', { class: 'n' }, interval(each, unit)),
              el('td', { class: 'n' }, each.n ?? '–'),
              el('td', {}, each.verdict || 'undecided'),
            ),
          ),
        ),
      ),
    );
    meaning.replaceChildren(defined([measure]));
  }
  const again = () => {
    drawn.redraw();
    tell();
  };
  lab.fills.push(again);
  const rows = () => [
    ['window', 'policy', 'baseline', 'measure', 'mean', 'low', 'high', 'n', 'verdict'],
    ...lab.data.windows.flatMap((window) =>
      (window.paired || []).map((each) => [
        window.window,
        each.policy,
        each.baseline,
        each.measure,
        each.mean,
        each.low,
        each.high,
        each.n,
        each.verdict,
      ]),
    ),
  ];
  page.append(
    section(
      'paired',
      `Against ${lab.data.baseline}, session by session`,
      [
        selector(
          'measure',
          keys.map((each) => [each, lab.measure[each].name]),
          key,
          (value) => {
            key = value;
            again();
          },
        ),
        saver('Differences as CSV', 'differences.csv', 'text/csv', () => csv(rows())),
      ],
      el(
        'figure',
        {},
        frame,
        el(
          'figcaption',
          {},
          'Each session’s value under the policy less the same session’s value under the baseline, averaged; the line is the interval. Where it crosses nought, nothing is said.',
        ),
      ),
      table,
      meaning,
    ),
  );
}
function verdictSection(page, lab) {
  if (!lab.data.windows.some((window) => window.verdicts?.length)) return;
  const host = el('div', {
    class: 'scroll',
    tabindex: 0,
    role: 'region',
    'aria-label': 'Verdicts on pairs of policies',
  });
  const words = { better: 'better', worse: 'worse', trade: 'a trade', '': '·' };
  lab.fills.push(() => {
    const keys = lab.data.policies.map((each) => each.key);
    const found = new Map((lab.at.verdicts || []).map((each) => [each.policy + ' ' + each.against, each]));
    host.replaceChildren(
      el(
        'table',
        { class: 'grid-table' },
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            el('th', {}, 'against →'),
            keys.map((key) => el('th', { scope: 'col' }, key)),
          ),
        ),
        el(
          'tbody',
          {},
          keys.map((row) =>
            el(
              'tr',
              {},
              el('th', { scope: 'row' }, row),
              keys.map((column) => {
                const each = found.get(row + ' ' + column);
                const why = each
                  ? [
                      each.better.length && 'better: ' + each.better.join(', '),
                      each.worse.length && 'worse: ' + each.worse.join(', '),
                    ]
                      .filter(Boolean)
                      .join('; ')
                  : '';
                return el(
                  'td',
                  { title: why || null, class: each ? 'v-' + (each.verdict || 'none') : 'soft' },
                  row === column ? '' : words[each?.verdict ?? ''],
                );
              }),
            ),
          ),
        ),
      ),
    );
  });
  page.append(
    section(
      'verdicts',
      'Which pairs are decided',
      saver('Verdicts as CSV', 'verdicts.csv', 'text/csv', () => csv(verdictRows(lab.data))),
      el(
        'p',
        { class: 'soft aside' },
        'The policy of the row against that of the column: better where an interval says so for some of what is judged and for none the other way, a trade where both, a dot where the sessions do not tell. Judged are the measures below.',
      ),
      host,
      defined((lab.data.judged || []).map((key) => lab.measure[key]).filter(Boolean)),
    ),
  );
}
function verdictRows(data) {
  const rows = [['window', 'policy', 'against', 'verdict', 'better', 'worse']];
  for (const { window, verdicts } of data.windows)
    for (const each of verdicts || [])
      rows.push([window, each.policy, each.against, each.verdict, each.better.join(' '), each.worse.join(' ')]);
  return rows;
}
