/* Fidelity against cost. */

function meansOf(lab, x, y) {
  return lab.at.means
    .map(({ policy, values }) => ({ policy, x: values[x], y: values[y] }))
    .filter((each) => Number.isFinite(each.x?.mean) && Number.isFinite(each.y?.mean));
}
function axes(lab, first) {
  const state = {
    x: lab.data.frontier?.x || lab.data.measures[0].key,
    y: lab.data.frontier?.y || lab.data.measures[0].key,
  };
  const options = lab.data.measures.map((each) => [each.key, each.name]);
  const pick = (axis, words) =>
    selector(words, options, state[axis], (value) => {
      state[axis] = value;
      first();
    });
  return { state, tools: [pick('y', 'up'), pick('x', 'across')] };
}
function frontierSection(page, lab) {
  const { state, tools } = axes(lab, () => {
    drawn.redraw();
    tell();
  });
  const frame = el('div', { class: 'chart', role: 'img' });
  const meaning = el('div'),
    words = el('figcaption');
  const drawn = chart(frame, (width) => {
    const mx = lab.measure[state.x],
      my = lab.measure[state.y],
      means = meansOf(lab, state.x, state.y);
    const curve = curvePoints(lab, state.x, state.y);
    const ends = (axis) => [
      ...means.flatMap((each) => [each[axis].mean, each[axis].low, each[axis].high]),
      ...curve.map((each) => each[axis].mean),
    ];
    return {
      height: width < 520 ? 320 : 420,
      top: 26,
      left: 60,
      x: { ...around(ends('x'), mx.unit), title: mx.name },
      y: { ...around(ends('y'), my.unit), title: my.name },
      draw(layer, sx, sy, box) {
        const points = means.map((each) => ({
          ...each,
          vx: each.x.mean,
          vy: each.y.mean,
          x: sx(each.x.mean),
          y: sy(each.y.mean),
          mean: each,
          words: lab.data.policies[lab.place[each.policy]].name,
        }));
        if (mx.better && my.better) {
          const best = frontier(points, mx.better, my.better);
          layer.append(
            svg('path', {
              class: 'frontier',
              d: best.map((point, at) => `${at ? 'L' : 'M'}${r1(point.x)} ${r1(point.y)}`).join(''),
            }),
          );
        }
        drawCurve(layer, lab, sx, sy, state);
        for (const point of points) {
          const { mean } = point,
            color = tone(lab.place[point.policy]);
          const group = svg('g', {
            class: color + (lab.on.has(point.policy) ? '' : ' quiet'),
            'data-policy': point.policy,
          });
          if (Number.isFinite(mean.x.low))
            group.append(
              svg('line', { class: 'whisker', x1: sx(mean.x.low), x2: sx(mean.x.high), y1: point.y, y2: point.y }),
            );
          if (Number.isFinite(mean.y.low))
            group.append(
              svg('line', { class: 'whisker', x1: point.x, x2: point.x, y1: sy(mean.y.low), y2: sy(mean.y.high) }),
            );
          group.append(
            svg(
              'circle',
              { class: 'dot' + hollow(lab.place[point.policy]), cx: point.x, cy: point.y, r: 5.5 },
              svg(
                'title',
                {},
                `${point.words}: ${my.name} ${written(mean.y.mean, my.unit)} (${interval(mean.y, my.unit)}), ${mx.name} ${written(mean.x.mean, mx.unit)} (${interval(mean.x, mx.unit)})`,
              ),
            ),
          );
          layer.append(group);
        }
        const ends = (mean, scale) =>
          Number.isFinite(mean.low) ? [scale(mean.low), scale(mean.high)] : [scale(mean.mean), scale(mean.mean)];
        labels(
          layer,
          points.map((point) => ({ ...point, wide: ends(point.mean.x, sx), tall: ends(point.mean.y, sy) })),
          box,
        );
      },
    };
  });
  function tell() {
    const mx = lab.measure[state.x],
      my = lab.measure[state.y];
    const level = Math.round(100 * (lab.data.setup?.level || 0.95));
    frame.setAttribute(
      'aria-label',
      `${my.name} against ${mx.name}, one point a policy; the same figures are in the table below`,
    );
    words.textContent =
      `Means over sessions; the thin lines are ${level}% intervals by bootstrap over ${lab.at.resampled || 'too few sessions to draw any'}. ` +
      (mx.better && my.better ? 'The dotted line joins the policies that no other beats on both. ' : '') +
      (lab.at.points?.length
        ? `The line is ${lab.data.curve.policy} at other values of ${lab.data.curve.setting}. `
        : '') +
      'Policies that are not looked at closely are pale.';
    meaning.replaceChildren(defined([my, mx]));
  }
  lab.fills.push(() => {
    drawn.redraw();
    tell();
  });
  page.append(
    section(
      'frontier',
      'What is kept, at what price',
      [tools, saver('Means as CSV', 'means.csv', 'text/csv', () => csv(meanRows(lab.data)))],
      el('figure', {}, frame, words),
      meaning,
    ),
  );
}
function meanRows(data) {
  const rows = [['window', 'policy', 'measure', 'mean', 'low', 'high', 'n']];
  for (const window of data.windows)
    for (const { policy, values } of window.means)
      for (const [key, value] of Object.entries(values))
        rows.push([window.window, policy, key, value.mean, value.low, value.high, value.n]);
  return rows;
}

/* --- all measures ------------------------------------------------------------------------------------------------- */

function tableSection(page, lab) {
  const host = el('div', {
    class: 'scroll',
    tabindex: 0,
    role: 'region',
    'aria-label': 'All measures, a column for each policy',
  });
  lab.fills.push(() => {
    const { data, at } = lab,
      verdicts = new Map((at.paired || []).map((each) => [each.policy + ' ' + each.measure, each.verdict]));
    const sign = { better: ['▲', 'better than the baseline'], worse: ['▼', 'worse than the baseline'] };
    host.replaceChildren(
      el(
        'table',
        { class: 'measures' },
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            el('th', { scope: 'col' }, 'measure'),
            at.means.map(({ policy }) =>
              el(
                'th',
                { scope: 'col', class: 'n' },
                el('span', { class: 'swatch ' + tone(lab.place[policy]) }),
                ' ',
                data.policies[lab.place[policy]].name,
                policy === data.baseline && el('small', {}, ' baseline'),
              ),
            ),
          ),
        ),
        el(
          'tbody',
          {},
          data.measures.map((measure) =>
            el(
              'tr',
              { 'data-measure': measure.key },
              el(
                'th',
                { scope: 'row' },
                el(
                  'details',
                  {},
                  el('summary', {}, measure.name),
                  el('p', {}, measure.definition),
                  measure.not_shown && el('p', {}, 'It does not show: ' + measure.not_shown),
                ),
              ),
              at.means.map(({ policy, values }) => {
                const value = values[measure.key] || {},
                  mark = sign[verdicts.get(policy + ' ' + measure.key)];
                return el(
                  'td',
                  { class: 'n' },
                  el('span', { class: 'value' }, written(value.mean, measure.unit)),
                  mark &&
                    el(
                      'span',
                      { class: 'verdict ' + (mark[0] === '▲' ? 'good' : 'bad'), title: mark[1] },
                      ' ' + mark[0],
                      el('span', { class: 'hidden' }, mark[1]),
                    ),
                  el(
                    'small',
                    {},
                    value.n === undefined || !Number.isFinite(value.low) ? '' : interval(value, measure.unit),
                  ),
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
      'measures',
      'All measures',
      saver('Means as CSV', 'means.csv', 'text/csv', () => csv(meanRows(lab.data))),
      el(
        'p',
        { class: 'soft aside' },
        'Means over sessions with their intervals. ▲ and ▼ mark a paired difference against the baseline that the interval tells from none. Open a name for its definition.',
      ),
      host,
    ),
  );
}
