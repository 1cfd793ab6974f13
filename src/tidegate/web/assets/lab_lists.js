/* What else there is to know. */

function listSection(page, lab) {
  const host = el('div'),
    meaning = el('div');
  lab.fills.push(() => {
    const { at, data } = lab,
      worse = at.worse || [];
    host.replaceChildren();
    meaning.replaceChildren(defined(worse.map((each) => lab.measure[each.measure]).filter(Boolean)));
    picker(host, {
      caption: 'Sessions that came out worse',
      size: 15,
      empty: 'There is none.',
      heads: [
        ['session', ''],
        ['policy', ''],
        ['measure', 'wide'],
        ['value', 'n'],
        ['against', 'n'],
      ],
      rows: worse.map((each) => () => [
        lab.session[each.session]?.name ?? each.session,
        each.policy,
        lab.measure[each.measure]?.name ?? each.measure,
        written(each.value, lab.measure[each.measure]?.unit),
        written(each.baseline, lab.measure[each.measure]?.unit),
      ]),
    });
    const lines = [
      ...(at.left_out || []).map((each) => `${each.session}: ${each.why}`),
      ...(data.skipped || []).map((each) => `${each.name}: ${each.why}`),
      ...(data.failures || [])
        .filter((each) => each.window === at.window)
        .map((each) => `${lab.session[each.session]?.name ?? each.session} under ${each.policy}: ${each.why}`),
    ];
    if (lines.length)
      host.append(
        el(
          'details',
          { class: 'aside' },
          el('summary', {}, `${many(lines.length, 'session or run', 'sessions or runs')} not counted`),
          el(
            'ul',
            {},
            lines.map((words) => el('li', {}, words)),
          ),
        ),
      );
  });
  page.append(
    section(
      'worse',
      'Where managing costs more than not managing',
      saver('Negative cases as CSV', 'negative.csv', 'text/csv', () => csv(worseRows(lab))),
      el(
        'p',
        { class: 'soft aside' },
        'The negative cases, not averaged away: sessions whose cost under a policy is above that of sending the whole history each time.',
      ),
      host,
      meaning,
    ),
  );
}
function worseRows(lab) {
  const rows = [['window', 'session', 'name', 'policy', 'measure', 'value', 'against']];
  for (const { window, worse } of lab.data.windows)
    for (const each of worse || []) {
      const name = lab.session[each.session]?.name;
      rows.push([window, each.session, name, each.policy, each.measure, each.value, each.baseline]);
    }
  return rows;
}
