/* Pictures in SVG: a frame with axes that fits its place, and a few shapes to put into it. */

function ticks(from, to, count) {
  const raw = (to - from) / Math.max(1, count);
  if (!(raw > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(from / step - 1e-9) * step; at <= to + step * 1e-6; at += step)
    found.push(+at.toPrecision(12) || 0);
  return found;
}
function timeTicks(from, to, count) {
  const steps = [1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 86400, 604800, 2592000, 31536000];
  const step = steps.find((each) => (to - from) / each <= count) || steps.at(-1) * 10;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found.length ? found : [from];
}

/* `spec()` says what to draw for a width: {height, x: {from, to, ticks, show, title}, y: {...}, draw(layer, sx, sy, box)}. */
let charts = 0;
function chart(host, spec) {
  const root = svg('svg', { 'aria-hidden': 'true' });
  host.append(root);
  const api = { redraw },
    clip = 'clip' + ++charts;
  let width = 0;
  function redraw() {
    if (width < 60) return;
    const it = spec(width);
    const box = { left: it.left || 52, top: it.top || 14, right: it.right || 14, bottom: it.x.title ? 44 : 26 };
    const w = width - box.left - box.right,
      h = it.height - box.top - box.bottom;
    const span = (axis) => (axis.to > axis.from ? axis.to - axis.from : 1);
    const sx = (value) => box.left + ((value - it.x.from) / span(it.x)) * w;
    const sy = (value) => box.top + h - ((value - it.y.from) / span(it.y)) * h;
    Object.assign(box, { w, h, width, height: it.height, base: box.top + h });
    root.setAttribute('viewBox', `0 0 ${width} ${it.height}`);
    root.setAttribute('height', it.height);
    const back = svg('g'),
      layer = svg('g'),
      front = svg('g');
    const inside = svg('g', { 'clip-path': `url(#${clip})` });
    layer.append(
      svg('clipPath', { id: clip }, svg('rect', { x: box.left, y: 0, width: w, height: it.height })),
      inside,
    );
    for (const at of it.y.ticks || ticks(it.y.from, it.y.to, Math.max(2, h / 56))) {
      back.append(
        svg('line', { class: 'grid', x1: box.left, x2: box.left + w, y1: sy(at), y2: sy(at) }),
        svg('text', { x: box.left - 8, y: sy(at) + 4, 'text-anchor': 'end' }, it.y.show(at)),
      );
    }
    for (const at of it.x.ticks || ticks(it.x.from, it.x.to, Math.max(2, w / 90))) {
      const edge = sx(at) > box.left + w - 24 ? 'end' : sx(at) < box.left + 16 ? 'start' : 'middle';
      front.append(
        svg('text', { x: sx(at), y: box.base + 18, 'text-anchor': edge }, it.x.show(at)),
        svg('line', { class: 'axis', x1: sx(at), x2: sx(at), y1: box.base, y2: box.base + 4 }),
      );
    }
    front.append(svg('line', { class: 'axis', x1: box.left, x2: box.left + w, y1: box.base, y2: box.base }));
    if (it.x.title) front.append(svg('text', { x: box.left + w, y: box.base + 38, 'text-anchor': 'end' }, it.x.title));
    if (it.y.title) front.append(svg('text', { x: 0, y: 11 }, it.y.title));
    it.draw(inside, sx, sy, box);
    root.replaceChildren(back, layer, front);
    Object.assign(api, { sx, sy, box, unx: (px) => it.x.from + ((px - box.left) / w) * span(it.x) });
    if (it.after) it.after(api);
  }
  new ResizeObserver((entries) => {
    const now = Math.floor(entries.at(-1).contentRect.width);
    if (now !== width) {
      width = now;
      redraw();
    }
  }).observe(host);
  return api;
}

const r1 = (number) => Math.round(number * 10) / 10;

/* Stacked areas in steps: each value holds from its place to the next. `end` is where the last one ends. */
function stack(layer, sx, sy, xs, end, rows, classes) {
  const px = xs.map((x) => r1(sx(x))),
    last = r1(sx(end));
  let floor = rows.map(() => 0);
  classes.forEach((name, at) => {
    const roof = floor.map((low, place) => low + (rows[place][at] || 0));
    if (roof.some((high, place) => high > floor[place])) {
      let up = '',
        down = '';
      for (let place = 0; place < px.length; place++) {
        const next = place + 1 < px.length ? px[place + 1] : last;
        const y = r1(sy(roof[place])),
          low = r1(sy(floor[place]));
        up += `${place ? 'L' : 'M'}${px[place]} ${y}H${next}`;
        down = `L${next} ${low}H${px[place]}` + down;
      }
      layer.append(svg('path', { class: `fill ${name}`, d: up + down + 'Z' }));
    }
    floor = roof;
  });
}

/* A line in steps through values that may be missing. */
function steps(layer, sx, sy, xs, end, ys, name) {
  let d = '',
    open = false;
  xs.forEach((x, place) => {
    if (!ys[place]) {
      open = false;
      return;
    }
    const next = place + 1 < xs.length ? xs[place + 1] : end;
    d += `${open ? 'L' : 'M'}${r1(sx(x))} ${r1(sy(ys[place]))}H${r1(sx(next))}`;
    open = true;
  });
  if (d) layer.append(svg('path', { class: name, d }));
}
function line(layer, sx, sy, xs, ys, name) {
  let d = '',
    open = false;
  xs.forEach((x, place) => {
    if (ys[place] === null || ys[place] === undefined) {
      open = false;
      return;
    }
    d += `${open ? 'L' : 'M'}${r1(sx(x))} ${r1(sy(ys[place]))}`;
    open = true;
  });
  if (d) layer.append(svg('path', { class: `line ${name}`, d }));
}

/* The place in sorted numbers that is nearest to a value. */
function nearest(sorted, value) {
  let low = 0,
    high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low > 0 && value - sorted[low - 1] < sorted[low] - value ? low - 1 : low;
}
