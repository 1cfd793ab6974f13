/* Asking the gateway, and following what changes in it. */

async function ask(what, values = {}) {
  const query = new URLSearchParams(values).toString();
  const answer = await fetch(`/ui/api/${what}${query ? '?' + query : ''}`, { credentials: 'same-origin' });
  return answered(answer);
}
async function sendChange(what, value, proof) {
  const answer = await fetch(`/ui/api/${what}`, {
    method: 'POST',
    credentials: 'same-origin',
    headers: { 'content-type': 'application/json', 'x-tidegate-proof': proof },
    body: JSON.stringify(value),
  });
  return answered(answer);
}
async function answered(answer) {
  if (answer.status === 401) location.reload(); /* the login has ended: the form comes */
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error || `The gateway answered ${answer.status}.`);
  return value;
}

/* Calls `act` when something has changed, one call at a time. A page that is hidden does not listen. */
function follow(values, act) {
  let source = null,
    busy = false,
    again = false,
    problem = '';
  const told = byId('live');
  async function run() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      do {
        again = false;
        await act();
      } while (again);
      problem = '';
    } catch (failure) {
      problem = failure.message;
    }
    busy = false;
    say();
  }
  function say() {
    const ended = source?.readyState === EventSource.CLOSED ? 'The gateway no longer reports changes.' : '';
    const fault = problem || ended;
    const state = source?.readyState === EventSource.CONNECTING ? 'connecting…' : 'live';
    told.textContent = fault
      ? `${fault} Load the page again; if that does not help, check the gateway's output.`
      : state;
    told.classList.toggle('on', told.textContent === 'live');
  }
  function open() {
    if (source || document.hidden) return;
    source = new EventSource('/ui/api/events?' + new URLSearchParams(values));
    source.onopen = say;
    source.onmessage = run;
    source.onerror = say; /* the browser connects again by itself, unless the gateway refused */
  }
  document.addEventListener('visibilitychange', () => {
    if (document.hidden && source) {
      source.close();
      source = null;
    } else open();
  });
  open();
  return run;
}

/* Puts new content in place of old, and the keyboard where it was. Controls are found again by their data-key. */
function redraw(host, ...children) {
  const key = host.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const scrolled = [...host.querySelectorAll('.scroll')].map((each) => each.scrollLeft);
  host.replaceChildren();
  filled(host, {}, children);
  host.querySelectorAll('.scroll').forEach((each, at) => (each.scrollLeft = scrolled[at] || 0));
  if (key) [...host.querySelectorAll('[data-key]')].find((each) => each.dataset.key === key)?.focus();
}

/* The client of a session, the last part of its folder, and the session's own name. */
const whereFrom = (row, boot) =>
  [row.client, (row.folder || '').split(/[\\/]/).filter(Boolean).pop(), row.name.slice(boot.scope.length)].filter(Boolean).join(' · ');
const sessionLink = (name) => '/ui/session?' + new URLSearchParams({ name });
const money = (figures, amount) =>
  figures.unpriced_tokens && !amount ? '–' : (figures.unpriced_tokens ? '> ' : '') + dollars(amount);
const cached = (figures) => (figures.input_tokens ? percent(figures.cached_tokens / figures.input_tokens) : '–');

/* How full the window is: a bar with its words. */
function filling(figures) {
  if (!figures.requests) return el('span', { class: 'soft' }, 'no request yet');
  if (!figures.window) return `${short(figures.filled)} tokens`;
  const part = figures.filled / figures.window;
  const bar = el('span', { class: 'meter' + (part > 0.95 ? ' full' : '') }, el('span'));
  bar.firstChild.style.width = Math.min(100, 100 * part) + '%';
  return el('span', { class: 'filling' }, bar, `${percent(part, 0)} of ${short(figures.window)}`);
}
function ago(seconds, now = Date.now() / 1000) {
  const past = Math.max(0, now - seconds);
  if (past < 60) return 'now';
  if (past < 3600) return many(Math.floor(past / 60), 'minute') + ' ago';
  if (past < 86400) return many(Math.floor(past / 3600), 'hour') + ' ago';
  return stamp(seconds).slice(0, 10);
}

function failed(failure) {
  const words = `This page could not be drawn: ${failure.message} Load it again. If that does not help, check that the gateway is running, and its output.`;
  byId('page').append(el('p', { class: 'note', role: 'alert' }, words));
  throw failure;
}
