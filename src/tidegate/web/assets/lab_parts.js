/* Parts of the lab's page: how values are written, where labels go, what a measure means. */

function written(value, unit) {
  if (value === null || value === undefined) return '–';
  if (unit === 'share') return percent(value);
  if (unit === 'tokens') return whole(value);
  if (unit === 'usd') return dollars(value, Math.abs(value) < 1 ? 4 : 2);
  if (unit === 'count') return Number.isInteger(value) ? whole(value) : value.toFixed(2);
  return value.toFixed(3);
}
const signed = (value, unit) => (value > 0 ? '+' : '') + written(value, unit);
function onAxis(value, unit) {
  if (unit === 'share') return percent(value, 0);
  return unit === 'usd' ? '$' + short(value) : short(value);
}
const interval = (value, unit) =>
  value.low === null || value.low === undefined
    ? 'no interval'
    : `${written(value.low, unit)} to ${written(value.high, unit)}`;

/* The colour of a policy; the thirteenth is the first again, hollow. */
const tone = (place) => 's' + ((place % 12) + 1);
const hollow = (place) => (place >= 12 ? ' hollow' : '');

function defined(measures) {
  return el(
    'dl',
    { class: 'defined' },
    [...new Set(measures)].map((measure) => [
      el(
        'dt',
        {},
        measure.name,
        measure.better &&
          el('span', { class: 'soft' }, measure.better === 'more' ? ' (more is better)' : ' (less is better)'),
      ),
      el(
        'dd',
        {},
        measure.definition,
        measure.not_shown && el('span', { class: 'soft' }, ' It does not show: ' + measure.not_shown),
      ),
    ]),
  );
}
function selector(label, options, chosen, act) {
  return el(
    'label',
    { class: 'select' },
    el('span', {}, label),
    el(
      'select',
      { on: { change: (event) => act(event.target.value) } },
      options.map(([value, words]) => el('option', { value, selected: value === chosen }, words)),
    ),
  );
}

/* An axis around these values, with some room, and within what a share can be. */
function around(values, unit, tight) {
  const real = values.filter((value) => value !== null && value !== undefined && Number.isFinite(value));
  let low = Math.min(...real),
    high = Math.max(...real);
  if (!real.length) [low, high] = [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  low -= room;
  high += room;
  if (!tight && low < (high - low) * 0.5 && low > -room * 1.01) low = 0;
  if (unit === 'share' && !tight) {
    low = Math.max(0, low);
    high = Math.min(1.02, high);
  }
  return { from: low, to: high, show: (value) => onAxis(value, unit) };
}

/* Names beside their points, each where it covers no other. */
function labels(layer, points, box) {
  const lines = points.flatMap(({ x, y, wide, tall }) => [
    [wide[0], y - 1, wide[1], y + 1],
    [x - 1, tall[1], x + 1, tall[0]],
  ]);
  const taken = points.map(({ x, y }) => [x - 6, y - 6, x + 6, y + 6]);
  const inside = (a) => a[0] >= box.left - 4 && a[2] <= box.left + box.w + 10 && a[1] >= 0 && a[3] <= box.base + 2;
  const clear = (a, others) => others.every((b) => a[2] < b[0] || a[0] > b[2] || a[3] < b[1] || a[1] > b[3]);
  for (const { x, y, words } of points) {
    const w = words.length * 6.7;
    const spots = [-11, 12, 0, -24, 25, -37, 38, -50, 51]
      .flatMap((dy) => [x + 9, x - 9 - w].map((left) => [left, y + dy - 7, left + w, y + dy + 7]))
      .filter((spot) => inside(spot) && clear(spot, taken));
    const spot = spots.find((each) => clear(each, lines)) || spots[0];
    if (!spot) continue;
    taken.push(spot);
    layer.append(svg('text', { class: 'name halo', x: spot[0], y: spot[1] + 11 }, words));
  }
}

/* The points that no other beats on both axes. */
function frontier(points, xBetter, yBetter) {
  const sign = (better) => (better === 'less' ? -1 : 1);
  const [sx, sy] = [sign(xBetter), sign(yBetter)];
  const beats = (a, b) => sx * a.vx >= sx * b.vx && sy * a.vy >= sy * b.vy && (a.vx !== b.vx || a.vy !== b.vy);
  return points.filter((point) => !points.some((other) => beats(other, point))).sort((a, b) => a.vx - b.vx);
}
