/* A policy at several values of one setting: the line it draws, and how it compares at each other policy's cost. */

function curveTone(lab) {
  return tone(lab.place[lab.data.curve.policy] ?? 0);
}
/* The points of the curve that have both means. */
function curvePoints(lab, x, y) {
  return (lab.at.points || [])
    .map(({ value, values }) => ({ value, x: values[x], y: values[y] }))
    .filter((each) => Number.isFinite(each.x?.mean) && Number.isFinite(each.y?.mean));
}
function drawCurve(layer, lab, sx, sy, state) {
  const points = curvePoints(lab, state.x, state.y);
  if (!points.length) return;
  const group = svg('g', { class: curveTone(lab), 'data-curve': lab.data.curve.setting });
  const xs = points.map((each) => each.x.mean),
    ys = points.map((each) => each.y.mean);
  line(group, sx, sy, xs, ys, 'curve');
  const [mx, my] = [lab.measure[state.x], lab.measure[state.y]];
  for (const { value, x, y } of points) {
    const words = `${lab.data.curve.policy}, ${lab.data.curve.setting} ${value}`;
    const figures = `${my.name} ${written(y.mean, my.unit)}, ${mx.name} ${written(x.mean, mx.unit)}`;
    const at = { class: 'dot hollow', cx: sx(x.mean), cy: sy(y.mean), r: 3 };
    group.append(svg('circle', at, svg('title', {}, `${words}: ${figures}`)));
  }
  layer.append(group);
}

/* --- at equal cost ------------------------------------------------------------------------------------------------ */

const EQUAL_COST_WORDS =
  'A policy that spends more keeps more. So each other policy is compared with the point of the curve that costs the most ' +
  'without costing more than it: that point’s value less the policy’s, session by session, with the interval. ';

function equalSection(page, lab) {
  if (!lab.data.curve) return;
  const { setting, policy } = lab.data.curve;
  const points = el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `The curve by ${setting}` });
  const table = el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Differences at equal cost' });
  const said = el('p', { class: 'soft aside' });
  const keys = [...new Set(lab.data.windows.flatMap((each) => each.equal_cost.flatMap(measuresOf)))];
  lab.fills.push(() => {
    const equal = lab.at.equal_cost;
    points.replaceChildren(pointTable(lab, [...keys, 'user']));
    table.replaceChildren(equalTable(lab, equal, keys));
    said.textContent = [
      equal.some((each) => each.dearer) &&
        `* cheaper than the whole curve: compared with its cheapest point, which costs more.`,
      lab.at.points.some((each) => each.beaten) &&
        `× passed over: another point costs no more and keeps no less of anything compared.`,
    ]
      .filter(Boolean)
      .join(' ');
  });
  page.append(
    section(
      'equal',
      `At equal cost: ${policy} by ${setting}`,
      [
        saver('Curve as CSV', 'curve.csv', 'text/csv', () => csv(pointRows(lab.data))),
        saver('Comparisons as CSV', 'equal-cost.csv', 'text/csv', () => csv(equalRows(lab.data))),
      ],
      el(
        'p',
        { class: 'soft aside' },
        EQUAL_COST_WORDS + 'Better or worse where no interval of the four crosses zero.',
      ),
      table,
      el('h3', {}, 'The curve'),
      points,
      said,
      defined(keys.map((key) => lab.measure[key]).filter(Boolean)),
    ),
  );
}
const measuresOf = (each) => each.differences.map((one) => one.measure);

function headed(name, words, rows) {
  const heads = words.map((text, at) => el('th', { scope: 'col', class: at ? 'n' : null }, text));
  return el('table', { class: 'grid-table ' + name }, el('thead', {}, el('tr', {}, heads)), el('tbody', {}, rows));
}
function pointTable(lab, keys) {
  const shown = keys.map((key) => lab.measure[key]).filter(Boolean);
  const rows = lab.at.points.map((point) =>
    el(
      'tr',
      {},
      el('th', { scope: 'row' }, point.value + (point.beaten ? ' ×' : '')),
      shown.map(({ key, unit }) => {
        const value = point.values[key] || {};
        return el('td', { class: 'n', title: interval(value, unit) }, written(value.mean, unit));
      }),
      el('td', { class: 'n' }, whole(point.dearer)),
    ),
  );
  return headed('points', [lab.data.curve.setting, ...shown.map((each) => each.name), 'dearer than unmanaged'], rows);
}
function equalWords({ verdict, better, worse, differences }) {
  const of = differences.length - 1; /* the cost is there to be read, not to be judged */
  if (verdict === 'partly better') return `better in ${better.length} of ${of}`;
  if (verdict === 'partly worse') return `worse in ${worse.length} of ${of}`;
  return { '': 'undecided', trade: 'a trade' }[verdict] ?? verdict;
}
function equalTable(lab, equal, keys) {
  const mark = { better: ['▲', 'good'], worse: ['▼', 'bad'] };
  const rows = equal.map((each) => {
    const by = Object.fromEntries(each.differences.map((one) => [one.measure, one]));
    const color = 'v-' + ({ better: 'better', worse: 'worse' }[each.verdict] || 'none');
    return el(
      'tr',
      { 'data-against': each.against },
      el('td', {}, el('span', { class: 'swatch ' + tone(lab.place[each.against]) }), ' ', each.against),
      el('td', { class: 'n' }, each.their_cost.toFixed(3)),
      el('td', { class: 'n' }, each.value + (each.dearer ? '*' : '')),
      el('td', { class: color }, equalWords(each)),
      keys.map((key) => {
        const one = by[key],
          unit = lab.measure[key]?.unit,
          sign = mark[one?.verdict];
        if (!one || one.mean === null) return el('td', { class: 'n' }, '–');
        return el(
          'td',
          { class: 'n' },
          signed(one.mean, unit),
          sign && el('span', { class: 'verdict ' + sign[1], title: one.verdict }, ' ' + sign[0]),
          el('small', {}, ' ' + interval(one, unit)),
        );
      }),
    );
  });
  const names = keys.map((key) => lab.measure[key]?.name || key);
  return headed('against measures', ['against', 'its cost', lab.data.curve.setting, 'verdict', ...names], rows);
}
function pointRows(data) {
  const rows = [['window', data.curve.setting, 'beaten', 'dearer', 'measure', 'mean', 'low', 'high', 'n']];
  for (const window of data.windows)
    for (const { value, beaten, dearer, values } of window.points)
      for (const [key, { mean, low, high, n }] of Object.entries(values))
        rows.push([window.window, value, beaten, dearer, key, mean, low, high, n]);
  return rows;
}
function equalRows(data) {
  const about = ['against', 'their cost', 'point', 'cost', 'dearer'];
  const rows = [['window', ...about, 'measure', 'mean', 'low', 'high', 'n', 'verdict']];
  for (const window of data.windows)
    for (const each of window.equal_cost)
      for (const { measure, mean, low, high, n, verdict } of each.differences)
        rows.push([
          window.window,
          ...[each.against, each.their_cost, each.point, each.cost, each.dearer],
          ...[measure, mean, low, high, n, verdict],
        ]);
  return rows;
}
