// What a page does beyond being read: plots on one time axis that zoom, are pointed at, marked
// and taken away; tables that sort; a page that follows what it shows. Without this script a page
// says the same, and prints.
(() => {
  'use strict';
  const one = (selector, of = document) => of.querySelector(selector);
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const make = (name, attributes = {}, ...inside) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...inside);
    return made;
  };
  const button = (text, act, attributes = {}) => {
    const made = make('button', { type: 'button', ...attributes }, text);
    made.addEventListener('click', act);
    return made;
  };
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
  const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

  // How figures are written, as in the rest of the page.
  const decimals = (size) => (size === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  const grouped = (text) => (text.length < 4 ? text : text.replace(/^\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ',')));
  const number = (value) => {
    if (!Number.isFinite(value)) return '–';
    const text = Math.abs(value).toFixed(decimals(Math.abs(value)));
    return (value < 0 && /[1-9]/.test(text) ? '−' : '') + grouped(text);
  };
  const about = (value) => {
    const size = Math.abs(value);
    return size >= 999.5e6 ? `${number(value / 1e9)} G` : size >= 999.5e3 ? `${number(value / 1e6)} M` : number(value);
  };
  const timeUnit = (seconds) => {
    const size = Math.abs(seconds);
    return size > 0 && size < 99.95e-6 ? [1e-6, 'µs'] : size < 0.9995 ? [1e-3, 'ms'] : [1, 's'];
  };
  const byteUnit = (bytes) => {
    let place = 0;
    while (place < 4 && Math.abs(bytes) >= 1023.5 * 1024 ** place) place += 1;
    return [1024 ** place, ['B', 'kB', 'MB', 'GB', 'TB'][place]];
  };
  const whole = (value) => (value <= -0.5 ? '−' : '') + grouped(Math.abs(value).toFixed(0));
  const bytes = (value) => {
    const [size, name] = byteUnit(value);
    const scaled = value / size;
    const short = scaled % 1 !== 0 && Math.abs(scaled) >= 0.05 && Math.abs(scaled) < 99.95 && name !== 'B';
    return `${short ? (scaled < 0 ? '−' : '') + Math.abs(scaled).toFixed(1) : whole(scaled)} ${name}`;
  };
  const percent = (share) => {
    const size = Math.abs(share * 100);
    const sign = share < 0 ? '−' : '';
    if (!Number.isFinite(size)) return '–';
    if (size === 0) return '0 %';
    if (size < 0.1) return `${sign}<0.1 %`;
    if (size >= 1e5) return `beyond ${sign}100,000 %`;
    return `${sign}${size >= 99.95 ? whole(size) : size.toFixed(1)} %`;
  };
  const seconds = (value) => {
    const [size, name] = timeUnit(value);
    return `${number(value / size)} ${name}`;
  };
  const write = {
    rate: (value) => `${about(value)}/s`, seconds, bytes: (value) => `${bytes(value)}/s`, share: percent, count: about,
  };
  const axisUnit = {
    rate: () => [1, 'per s'],
    seconds: timeUnit,
    bytes: (most) => { const [size, name] = byteUnit(most); return [size, `${name}/s`]; },
    share: () => [0.01, '%'],
    count: (_, of) => [1, of],
  };
  const clock = (at, fine = false) => {
    const size = fine ? Math.round(Math.abs(at) * 10) / 10 : Math.round(Math.abs(at));
    const two = (n) => String(n).padStart(2, '0');
    const [hours, minutes] = [Math.floor(size / 3600), Math.floor(size / 60) % 60];
    const rest = size % 60;
    const last = fine && rest % 1 ? rest.toFixed(1).padStart(4, '0') : two(Math.floor(rest));
    return (at < -0.5 ? '−' : '') + (hours ? `${hours}:${two(minutes)}` : minutes) + ':' + last;
  };

  // Axes.
  const roundStep = (least) => {
    if (!(least > 0 && Number.isFinite(least))) return 1;
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].find((m) => m * power >= least * (1 - 1e-9)) * power;
  };
  const multiples = (from, to, step) => {
    const found = [];
    for (let n = Math.ceil(from / step - 1e-9); n <= to / step + 1e-9 && found.length < 100; n += 1) found.push(n * step);
    return found;
  };
  const CLOCK = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200];
  // Ticks are no closer than `least`, which rounding does not change.
  const timeTicks = (from, to, least) => multiples(from, to, CLOCK.find((step) => step >= least * (1 - 1e-9)) || Math.max(1, Math.ceil(least / 86400)) * 86400);
  const logTicks = (from, to, wanted) => {
    let ticks = [];
    for (const steps of [[1, 2, 5], [1, 3], [1]]) {
      ticks = [];
      for (let e = Math.floor(Math.log10(from)); e <= Math.ceil(Math.log10(to)); e += 1) {
        for (const m of steps) if (m * 10 ** e >= from * (1 - 1e-9) && m * 10 ** e <= to * (1 + 1e-9)) ticks.push(m * 10 ** e);
      }
      if (ticks.length <= Math.max(2, wanted) + 1) return ticks;
    }
    return ticks.filter((_, i) => i % Math.ceil(ticks.length / wanted) === 0);
  };

  // The first place in ascending times that is not before `at`.
  const lower = (times, at) => {
    let low = 0, high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < at) low = middle + 1; else high = middle;
    }
    return low;
  };
  const px = (value) => Math.round(value * 10) / 10;

  const box = one('.timeline');
  const sheet = box && timeline(box);

  function timeline(box) {
    const figures = {};
    for (const figure of all('figure.panel', box)) {
      const svg = one('svg', figure);
      figures[svg.dataset.panel] = { figure, svg };
    }
    const moment = one('#moment span', box);
    const ribbon = one('svg.ribbon', box), foot = one('svg.foot', box);
    // Narrower than this the plots are drawn anew, with their legends below them.
    const NARROW = 620;
    let data = null, loading = null, panels = [], narrow = false;
    let view = { zoom: null, mark: null, at: null, solo: new Map(), log: new Set(), p: null };
    let pointing = null, marking = false, geometry = null;

    // What the page embeds, or is told where to find.
    const parse = (sheet) => {
      const times = sheet.times.map((steps) => { let at = 0; return Float64Array.from(steps, (step) => (at += step) / 100); });
      for (const panel of sheet.panels) {
        for (const track of panel.tracks) {
          track.times = times[track.t];
          const unit = 10 ** Math.abs(track.e);
          track.values = Float64Array.from(track.v, (n) => (n === null ? NaN : track.e < 0 ? n / unit : n * unit));
        }
      }
      return sheet;
    };
    const load = () => {
      if (data) return Promise.resolve();
      const embedded = one('#series');
      loading = loading || (embedded ? Promise.resolve(JSON.parse(embedded.textContent)) : fetch(box.dataset.series).then((r) => {
        if (!r.ok) throw new Error(`the figures of the plots cannot be read: ${r.status}`);
        return r.json();
      })).then((sheet) => { data = parse(sheet); ready(); }, (error) => { loading = null; told.textContent = `${error.message}.`; });
      return loading;
    };

    const range = () => view.zoom || [data.from, data.to];
    const plain = () => !view.zoom && !view.solo.size && !view.log.size && view.p === null;

    // The bar above the plots.
    const told = make('p', { class: 'told', role: 'status' });
    const shown = make('span', { class: 'shown' });
    const drags = ['zoom', 'mark'].map((what) => button(what === 'zoom' ? 'Drag zooms' : 'Drag marks', () => {
      marking = what === 'mark';
      drags.forEach((b, i) => b.setAttribute('aria-pressed', String(marking === (i === 1))));
    }, { 'aria-pressed': String(what === 'zoom') }));
    const keys = make('details', { class: 'keys' }, make('summary', {}, 'Keys'), make('p', {},
      'Arrows move the crosshair (Page Up and Page Down ten times as far), with Shift they mark; + and − zoom, Enter zooms to what is marked, 0 shows the whole run, [ and ] go to what happened before and after, Escape takes back.'));
    const bar = make('div', { class: 'tools screen', role: 'toolbar', 'aria-label': 'Plots' },
      ...drags,
      button('+', () => zoomBy(0.5), { 'aria-label': 'Zoom in' }),
      button('−', () => zoomBy(2), { 'aria-label': 'Zoom out' }),
      button('Whole run', () => set({ zoom: null })), shown, keys);
    const changed = make('div', { class: 'changed screen', role: 'region', 'aria-label': 'What changed in the marked stretch', hidden: '' });
    box.parentElement.before(bar, changed, told);

    // State in the fragment, so that a view is a link.
    const read = (fragment) => {
      const next = { zoom: null, mark: null, at: null, solo: new Map(), log: new Set(), p: null };
      if (!fragment.includes('=')) return next;
      const parts = new URLSearchParams(fragment.slice(1));
      const pair = (text) => {
        const ends = (text || '').split(',').map(Number);
        return ends.length === 2 && ends.every(Number.isFinite) && ends[0] < ends[1] ? ends : null;
      };
      next.zoom = pair(parts.get('zoom'));
      next.mark = pair(parts.get('mark'));
      if (parts.has('at') && Number.isFinite(Number(parts.get('at')))) next.at = Number(parts.get('at'));
      for (const solo of parts.getAll('solo')) {
        const dot = solo.indexOf('.');
        if (dot > 0) next.solo.set(solo.slice(0, dot), solo.slice(dot + 1));
      }
      for (const id of (parts.get('log') || '').split(',').filter(Boolean)) next.log.add(id);
      const p = Number(parts.get('p'));
      if (parts.has('p') && p > 0 && p < 100) next.p = p;
      return next;
    };
    const store = () => {
      const parts = [];
      const pair = (ends) => ends.map((end) => Math.round(end * 100) / 100).join(',');
      if (view.zoom) parts.push(`zoom=${pair(view.zoom)}`);
      if (view.mark) parts.push(`mark=${pair(view.mark)}`);
      if (view.at !== null) parts.push(`at=${Math.round(view.at * 100) / 100}`);
      for (const [id, name] of view.solo) parts.push(`solo=${encodeURIComponent(`${id}.${name}`)}`);
      if (view.log.size) parts.push(`log=${[...view.log].join(',')}`);
      if (view.p !== null) parts.push(`p=${view.p}`);
      if (parts.length || location.hash.includes('=')) history.replaceState(null, '', parts.length ? `#${parts.join('&')}` : location.pathname + location.search);
    };
    const set = (change, quiet = false) => {
      Object.assign(view, change);
      if (view.zoom) {
        const least = Math.min(2, data.to - data.from);
        let [from, to] = view.zoom;
        if (to - from < least) [from, to] = [(from + to - least) / 2, (from + to + least) / 2];
        if (to > data.to) [from, to] = [from - (to - data.to), data.to];
        from = Math.max(from, data.from);
        view.zoom = from <= data.from && to >= data.to ? null : [from, Math.min(to, data.to)];
      }
      if (!quiet) {
        // Browsers bear few changes of an address a second.
        clearTimeout(storing);
        storing = setTimeout(store, 100);
      }
      later();
    };
    let storing = 0, waiting = false;
    const later = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(); });
    };

    // Drawing.
    const measure = () => {
      const room = box.parentElement.clientWidth;
      narrow = room < NARROW;
      const width = narrow ? Math.max(280, room) : data.width;
      geometry = narrow ? { width, left: 62, right: width - 8 } : { width, left: data.left, right: data.right };
      box.classList.toggle('narrow', narrow);
      box.parentElement.classList.toggle('fits', narrow);
    };
    const xOf = (at) => {
      const [from, to] = range();
      return geometry.left + (at - from) / (to - from) * (geometry.right - geometry.left);
    };
    // What is drawn: the view, and while it is panned as much again beside it.
    let extent = null;
    const reach = () => extent || range();
    const inside = (at) => { const [from, to] = reach(); return at >= from && at <= to; };
    const tickGap = () => { const [from, to] = range(); return (to - from) / (narrow ? 4 : 10); };
    const line = (x1, y1, x2, y2, name) => `<line x1="${px(x1)}" y1="${px(y1)}" x2="${px(x2)}" y2="${px(y2)}" class="${name}"/>`;
    const rect = (x1, y1, x2, y2, name) => `<rect x="${px(x1)}" y="${px(y1)}" width="${px(Math.max(0, x2 - x1))}" height="${px(Math.max(0, y2 - y1))}" class="${name}"/>`;
    const text = (x, y, name, content) => `<text x="${px(x)}" y="${px(y)}" class="${name}">${escaped(content)}</text>`;
    const stretch = (from, to, top, bottom, name) => {
      const [low, high] = reach();
      return to < low || from > high ? '' : rect(xOf(Math.max(from, low)), top, xOf(Math.min(to, high)), bottom, name);
    };
    const backdrop = (top, bottom) => {
      let out = '';
      for (const span of data.spans) if (!span.measured) out += stretch(span.from, span.to, top, bottom, 'left-out');
      for (const note of data.notes) if (note.kind === 'checkpoint' && note.from !== null) out += stretch(note.from, note.to ?? data.to, top, bottom, 'cp-span');
      if (view.mark) out += stretch(view.mark[0], view.mark[1], top, bottom, 'marked');
      return out;
    };
    const LINES = { checkpoint: 'cp-end', setting: 'note-line', note: 'note-line', fault: 'note-line fault' };
    const foreground = (top, bottom) => {
      let out = '';
      for (const note of data.notes) if (LINES[note.kind] && note.to !== null && inside(note.to)) out += line(xOf(note.to), top, xOf(note.to), bottom, LINES[note.kind]);
      for (const span of data.spans) if (span.measured) for (const edge of [span.from, span.to]) if (inside(edge)) out += line(xOf(edge), top, xOf(edge), bottom, 'edge');
      return out;
    };
    const vertical = (panel, y, log, low, high) => {
      const [size, name] = axisUnit[panel.unit](high, panel.of);
      let out = '';
      if (log) {
        for (const value of logTicks(low, high, 4)) {
          out += line(geometry.left, y(value), geometry.right, y(value), 'grid');
          const [unit, called] = panel.unit === 'seconds' ? (value < 0.999e-3 ? [1e-6, 'µs'] : value < 0.999 ? [1e-3, 'ms'] : [1, 's']) : [1, ''];
          const said = panel.unit === 'seconds' ? `${grouped((value / unit).toFixed(0))} ${called}` : write[panel.unit](value);
          out += text(geometry.left - 8, y(value) + 3.8, 'tick from-right', said);
        }
        return out;
      }
      const step = roundStep(high / size / 4) * size;
      const ticks = multiples(0, high, step);
      const scaled = step / size;
      const digits = scaled >= 1 || scaled <= 0 ? (scaled % 1 > 1e-9 ? 1 : 0) : Math.min(6, Math.ceil(-Math.log10(scaled) - 1e-9));
      for (const value of ticks) {
        const of = value / size;
        out += line(geometry.left, y(value), geometry.right, y(value), value === 0 ? 'base' : 'grid');
        out += text(geometry.left - 8, y(value) + 3.8, 'tick from-right', digits ? of.toFixed(digits) : Math.abs(of) < 1e6 ? whole(of) : about(of));
      }
      return `${out}<text transform="translate(10 ${px((y(0) + y(high)) / 2)}) rotate(-90)" class="tick centred quiet">${escaped(name)}</text>`;
    };
    // Pixels that are drawn as one: while a view moves, more than when it rests.
    let moving = false, coarse = false;
    const grain = () => { coarse = coarse || moving; return moving ? 4 : 1.5; };
    const grains = () => {
      const [[from, to], [first, last]] = [range(), reach()];
      return Math.ceil((geometry.right - geometry.left) * (last - first) / (to - from) / grain());
    };
    // Of those the smallest and the largest value: no peak is lost.
    const thinned = (track, from, to) => {
      const { times, values } = track;
      const first = Math.max(0, lower(times, from) - 1), last = Math.min(times.length, lower(times, to) + 1);
      const places = grains();
      const found = [];
      if (last - first <= 2 * places) {
        for (let i = first; i < last; i += 1) found.push(i);
        return found;
      }
      const each = (last - first) / places;
      for (let place = 0; place < places; place += 1) {
        const begin = Math.floor(first + place * each), end = Math.floor(first + (place + 1) * each);
        let least = -1, most = -1, gap = -1;
        for (let i = begin; i < end; i += 1) {
          const value = values[i];
          if (value !== value) { gap = i; continue; }
          if (least < 0 || value < values[least]) least = i;
          if (most < 0 || value > values[most]) most = i;
        }
        const kept = [least, most, gap].filter((i) => i >= 0).sort((a, b) => a - b);
        kept.forEach((i, k) => { if (k === 0 || kept[k - 1] !== i) found.push(i); });
      }
      return found;
    };
    // Paths are in tenths of a pixel, from point to point: a browser reads short whole numbers fastest.
    const by = (dx, dy) => (dy < 0 ? `${dx}${dy}` : `${dx} ${dy}`);
    const pathOf = (places, times, values, heightOf) => {
      let d = '', open = false, alone = false, x = 0, y = 0;
      const [from, to] = range();
      const scale = 10 * (geometry.right - geometry.left) / (to - from), left = 10 * geometry.left - from * scale;
      for (const i of places) {
        const value = values[i];
        if (value !== value) { if (alone) d += 'h0'; open = alone = false; continue; }
        const [toX, toY] = [Math.round(left + times[i] * scale), Math.round(heightOf(value) * 10)];
        d += open ? (alone ? 'l' : ' ') + by(toX - x, toY - y) : `M${toX} ${toY}`;
        [x, y] = [toX, toY];
        alone = !open;
        open = true;
      }
      return alone ? `${d}h0` : d;
    };
    const spread = (wanted, gap, top, bottom) => {
      const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
      const placed = [];
      let free = top, limit = bottom;
      for (const i of order) { placed[i] = Math.max(wanted[i], free); free = placed[i] + gap; }
      for (const i of order.reverse()) { placed[i] = Math.min(placed[i], limit); limit = placed[i] - gap; }
      return placed;
    };
    const tracksOf = (panel) => {
      const tracks = panel.extra ? [...panel.tracks, panel.extra] : panel.tracks;
      const solo = view.solo.get(panel.id);
      const chosen = tracks.filter((track) => track.name === solo);
      return [tracks, chosen.length ? chosen : tracks];
    };

    // What moves with time lies in two groups, before and behind the scale that does not, and is cut where the plot ends.
    const layers = (id, bottom, behind, still, before) => {
      const moves = (what) => `<g clip-path="url(#clip-${id})"><g class="moves">${what}</g></g>`;
      return `<clipPath id="clip-${id}"><rect x="${geometry.left}" y="0" width="${geometry.right - geometry.left}" height="${bottom + 2}"/></clipPath>${moves(behind)}${still}${moves(before)}`;
    };
    // What was drawn, of which view and how far beyond it: a pan inside of that moves it and draws nothing.
    const kept = new Map();
    let news = 0;
    const state = () => [news, data.to, geometry.width, view.mark, view.p, ...view.log, ...view.solo].join(' ');
    const keep = (id, of) => kept.set(id, { view: range(), reach: reach(), state: state(), parts: all('.moves', of) });
    const pan = (id) => {
      const was = kept.get(id), [from, to] = range();
      if (!was || was.state !== state()) return false;
      const width = to - from, near = 1e-9 * (Math.abs(from) + Math.abs(to));
      if (Math.abs(was.view[1] - was.view[0] - width) > near || from < was.reach[0] - near || to > was.reach[1] + near) return false;
      const shift = px((was.view[0] - from) / width * (geometry.right - geometry.left));
      for (const part of was.parts) if (shift || part.hasAttribute('transform')) part.setAttribute('transform', `translate(${shift})`);
      if (from !== was.view[0]) rough.add(id);
      return true;
    };

    const drawPanel = (panel) => {
      const { svg } = figures[panel.id];
      const [tracks, seen] = tracksOf(panel);
      const stack = panel.marks === 'stack' && seen.length > 1;
      const log = !stack && (panel.marks === 'log') !== view.log.has(panel.id);
      const [from, to] = reach();
      const top = 6, bottom = top + panel.height;
      const rules = seen.length === tracks.length ? panel.rules.filter((rule) => rule.to >= from && rule.from <= to) : [];
      let low = Infinity, high = 0, edges = [];
      if (stack) {
        const times = seen[0].times, places = averaged(times, from, to);
        let below = new Float64Array(places.length);
        for (const track of seen) {
          const edge = places.map(([begin, end], k) => below[k] + meanOf(track.values, begin, end));
          edges.push(edge);
          for (const value of edge) if (value > high) high = value;
          below = edge;
        }
        edges.at = places.map(([begin, end]) => Math.round(10 * xOf((times[begin] + times[end - 1]) / 2)));
      } else {
        for (const track of seen) {
          const last = lower(track.times, to + 1e-6);
          for (let i = lower(track.times, from); i < last; i += 1) {
            const value = track.values[i];
            if (value > high) high = value;
            if (value > 0 && value < low) low = value;
          }
        }
      }
      for (const rule of rules) { high = Math.max(high, rule.value); if (rule.value > 0) low = Math.min(low, rule.value); }
      let y;
      if (log) {
        low = (Number.isFinite(low) ? low : 1e-3) / 1.25;
        high = high > low ? high * 1.25 : low * 10;
        const per = (bottom - top) / Math.log(high / low);
        y = (value) => bottom - Math.log(clamp(value, low, high) / low) * per;
      } else {
        const [size] = axisUnit[panel.unit](high, panel.of);
        const half = roundStep(high / size / 4) / 2;
        high = high > 0 ? Math.ceil(high / size / half * (1 - 1e-9)) * half * size : size;
        y = (value) => bottom - clamp(value / high, 0, 1) * (bottom - top);
      }
      let behind = backdrop(top, bottom), out = '';
      for (const tick of timeTicks(from, to, tickGap())) behind += line(xOf(tick), top, xOf(tick), bottom, 'grid faint');
      const wanted = [];
      if (stack) {
        let below = null;
        edges.forEach((edge, k) => {
          let d = '', run = [];
          const flush = () => {
            if (!run.length) return;
            let [x, at] = [edges.at[run[0]], Math.round(10 * y(edge[run[0]]))];
            d += `M${x} ${at}l0 0`;
            const to = (i, value) => {
              const [toX, toY] = [edges.at[i], Math.round(10 * y(value))];
              d += ` ${by(toX - x, toY - at)}`;
              [x, at] = [toX, toY];
            };
            for (const i of run) to(i, edge[i]);
            for (const i of run.reverse()) to(i, below ? below[i] : 0);
            d += 'z';
            run = [];
          };
          edge.forEach((value, i) => { if (value === value) run.push(i); else flush(); });
          flush();
          out += `<path class="area ${seen[k].ink}" transform="scale(.1)" d="${d}"/>`;
          const ends = [edge, below].map((of) => { const known = of ? of.filter((v) => v === v) : []; return known.length ? known[known.length - 1] : 0; });
          wanted.push((y(ends[0]) + y(ends[1])) / 2);
          below = edge;
        });
      } else {
        const drawn = seen.map((track) => `<path class="line ${track.ink}${track.dashed ? ' dashed' : ''}" transform="scale(.1)" d="${pathOf(thinned(track, from, to), track.times, track.values, y)}"/>`);
        out += drawn.reverse().join('');
        const [begun, ended] = range();
        for (const track of seen) {
          const last = lower(track.times, ended), begin = Math.max(lower(track.times, begun), last - Math.ceil((last - lower(track.times, begun)) / 10));
          const mean = meanOf(track.values, begin, Math.max(last, begin + 1));
          wanted.push(y(mean === mean ? mean : 0));
        }
      }
      out += foreground(top, bottom);
      for (const rule of rules) {
        const [x1, x2] = [xOf(Math.max(rule.from, from)), xOf(Math.min(rule.to, to))];
        if (rule.band) out += rect(x1, y(rule.band[1]), x2, y(rule.band[0]), 'band');
        out += line(x1, y(rule.value), x2, y(rule.value), 'rule');
        if (rule.name) out += text(Math.min(x2, geometry.right) - 4, y(rule.value) - 4, 'note from-right', rule.name);
      }
      let height = bottom + 6;
      const place = tracks.map((track) => seen.indexOf(track));
      const column = (geometry.right - geometry.left) / (tracks.length > 1 ? 2 : 1);
      const places = narrow
        ? tracks.map((_, i) => [geometry.left + (i % 2) * column, bottom + 16 + Math.floor(i / 2) * 17])
        : (() => {
          const around = tracks.map((_, i) => (place[i] >= 0 ? wanted[place[i]] : bottom));
          return spread(around, 16, top + 6, bottom - 2).map((at) => [geometry.width - 192, at]);
        })();
      if (narrow) height = bottom + 14 + Math.ceil(tracks.length / 2) * 17;
      const end = narrow ? column - 12 : 190;
      const legend = () => tracks.map((track, i) => {
        const [left, at] = places[i];
        const alone = seen.length < tracks.length && seen.includes(track);
        const key = panel.marks === 'stack' ? rect(left, at - 5, left + 10, at + 5, `area ${track.ink}`) : line(left, at, left + 10, at, `line ${track.ink}${track.dashed ? ' dashed' : ''}`);
        const most = Math.min(18, Math.floor((end - 80) / 6.6));
        const short = track.name.length > most ? `${track.name.slice(0, most - 1)}…` : track.name;
        const label = tracks.length > 1 ? ` role="button" tabindex="0" aria-pressed="${alone}" aria-label="${escaped(track.name)} alone"` : '';
        return `<g class="legend${seen.includes(track) ? '' : ' off'}" data-track="${i}"${label}><title>${escaped(track.name)}</title><rect x="${px(left - 3)}" y="${px(at - 8)}" width="${px(end + 5)}" height="16" class="hit"/>${key}${text(left + 16, at + 3.8, 'name', short)}${text(left + end, at + 3.8, 'value from-right', '')}</g>`;
      }).join('');
      if (!panel.plot) {
        svg.setAttribute('role', 'group');
        svg.innerHTML = `<g></g><g></g><line class="cross" x1="0" x2="0" y1="${top}" y2="${px(bottom)}"/>`;
        [panel.plot, panel.legend, panel.cross] = svg.children;
      }
      svg.setAttribute('viewBox', `0 0 ${geometry.width} ${px(height)}`);
      panel.plot.innerHTML = layers(panel.id, bottom, behind, vertical(panel, y, log, low, high), out);
      keep(panel.id, panel.plot);
      // The legend stays where it is while a view moves.
      const shape = `${geometry.width} ${tracks.map((track) => `${track.name} ${seen.includes(track)}`)}`;
      const layout = moving && panel.shape === shape ? panel.layout : `${shape} ${places.map(([, at]) => Math.round(at))}`;
      if (panel.layout === layout) return;
      [panel.shape, panel.layout] = [shape, layout];
      const focused = panel.legend.contains(document.activeElement) ? document.activeElement.dataset.track : null;
      panel.legend.innerHTML = legend();
      if (focused !== null) one(`[data-track="${focused}"]`, svg)?.focus({ preventScroll: true });
      panel.values = all('.value', svg);
    };
    const averaged = (times, from, to) => {
      const first = Math.max(0, lower(times, from) - 1), last = Math.min(times.length, lower(times, to) + 1);
      const each = Math.max(1, (last - first) / grains());
      const found = [];
      for (let at = first; at < last - 1e-9; at += each) found.push([Math.floor(at), Math.max(Math.floor(at) + 1, Math.min(last, Math.floor(at + each)))]);
      return found;
    };
    const meanOf = (values, begin, end) => {
      let sum = 0, n = 0;
      for (let i = begin; i < end; i += 1) if (values[i] === values[i]) { sum += values[i]; n += 1; }
      return n ? sum / n : NaN;
    };

    // The map of latencies.
    const MAP = { id: 'map', title: 'Latency map' };
    const edge = (row) => data.map.lowest * 10 ** (row / data.map.per_decade);
    const SHADES = 6;
    const drawMap = () => {
      const { map } = data;
      const at = figures.map;
      if (!map || !at) return;
      const [from, to] = reach();
      const top = 6, bottom = top + 120;
      const first = clamp(Math.floor((from - map.from) / map.column), 0, map.columns.length);
      const last = clamp(Math.ceil((to - map.from) / map.column), 0, map.columns.length);
      coarse = coarse || moving;
      const together = ((bottom - top) / map.per_decade < 1.6 ? 2 : 1) * (moving ? 2 : 1);
      let least = Infinity, highest = 0, most = 1;
      const cells = [];
      for (let c = first; c < last; c += 1) {
        const [row, counts] = map.columns[c];
        if (!counts.length) continue;
        least = Math.min(least, row);
        highest = Math.max(highest, row + counts.length);
        for (let i = 0; i < counts.length;) {
          const begin = Math.floor((row + i) / together) * together;
          let count = 0;
          while (i < counts.length && row + i < begin + together) { count += counts[i]; i += 1; }
          if (count) { cells.push([c, begin, count]); most = Math.max(most, count); }
        }
      }
      const low = least < Infinity ? edge(least) / 1.1 : 1e-3, high = least < Infinity ? edge(highest) * 1.1 : 1;
      const per = (bottom - top) / Math.log(high / low);
      const y = (value) => bottom - Math.log(clamp(value, low, high) / low) * per;
      const paths = Array(SHADES).fill('');
      const shadeOf = (count) => Math.min(SHADES - 1, Math.floor(Math.log(1 + count) / Math.log(1 + most) * SHADES));
      for (let i = 0; i < cells.length;) {
        // Neighbours of one shade in a column are one rectangle.
        const [c, row, count] = cells[i];
        const shade = shadeOf(count);
        let end = row + together;
        for (i += 1; i < cells.length && cells[i][0] === c && cells[i][1] === end && shadeOf(cells[i][2]) === shade; i += 1) end += together;
        const begin = map.from + c * map.column;
        const left = Math.round(10 * xOf(Math.max(begin, from))), right = Math.round(10 * xOf(Math.min(begin + map.column, to)));
        if (right > left) {
          const [upper, under] = [Math.round(10 * y(edge(end))), Math.round(10 * y(edge(row)))];
          paths[shade] += `M${left} ${upper}h${right - left}v${under - upper}h${left - right}`;
        }
      }
      let shades = '';
      paths.forEach((d, shade) => { if (d) shades += `<path class="shade s${shade}" transform="scale(.1)" d="${d}"/>`; });
      let out = layers('map', bottom, backdrop(top, bottom), vertical({ unit: 'seconds' }, y, true, low, high), shades + foreground(top, bottom));
      const left = narrow ? geometry.left : geometry.width - 192, under = narrow ? bottom + 8 : top + 4;
      for (let shade = 0; shade < SHADES; shade += 1) out += `<path class="shade s${shade}" d="M${left + 18 * shade} ${under}h18v10h-18z"/>`;
      out += text(left, under + 24, 'tick', 'few') + text(left + 18 * SHADES, under + 24, 'tick from-right', 'many');
      out += text(narrow ? geometry.right : geometry.width - 2, under + (narrow ? 10 : 42), 'value from-right', '');
      out += `<line class="cross" x1="0" x2="0" y1="${top}" y2="${bottom}"/>`;
      at.svg.setAttribute('viewBox', `0 0 ${geometry.width} ${narrow ? bottom + 36 : bottom + 6}`);
      at.svg.innerHTML = out;
      keep('map', at.svg);
      at.value = one('.value', at.svg);
      at.cross = one('.cross', at.svg);
    };
    // The latency under which a share of the counts stay; inside a row they lie evenly by ratio.
    const percentileOf = (columns, p) => {
      let first = Infinity, last = 0, total = 0;
      for (const [row, counts] of columns) if (counts.length) { first = Math.min(first, row); last = Math.max(last, row + counts.length); }
      if (first === Infinity) return NaN;
      const sums = new Float64Array(last - first);
      for (const [row, counts] of columns) counts.forEach((n, i) => { sums[row - first + i] += n; total += n; });
      let left = p / 100 * total;
      for (let i = 0; i < sums.length; i += 1) {
        if (sums[i] >= left && sums[i] > 0) return edge(first + i + left / sums[i]);
        left -= sums[i];
      }
      return edge(last);
    };
    const columnsIn = (from, to) => {
      const { map } = data;
      const first = clamp(Math.round((from - map.from) / map.column), 0, map.columns.length);
      return map.columns.slice(first, clamp(Math.max(first + 1, Math.round((to - map.from) / map.column)), 0, map.columns.length));
    };
    const anyPercentile = () => {
      const panel = panels.find((p) => p.id === 'latency');
      if (!panel) return;
      if (view.p === null || !data.map) { panel.extra = null; return; }
      if (panel.extra?.p === view.p && panel.extra.to === data.to) return;
      const { map } = data;
      panel.extra = {
        p: view.p, to: data.to, name: `≈ p${view.p}`, ink: 'i-any', dashed: true,
        typical: percentileOf(columnsIn(...(data.window || [data.from, data.to])), view.p),
        times: Float64Array.from(map.columns, (_, i) => map.from + (i + 0.5) * map.column),
        values: Float64Array.from(map.columns, (column) => percentileOf([column], view.p)),
      };
    };

    const FLAGS = { checkpoint: 'h4.5l-4.5 7l-4.5-7z', vacuum: 'a3.5 3.5 0 1 1-.01 0z', setting: 'l4 4l-4 4l-4-4z', fault: 'm-4 0l8 8m0-8l-8 8', note: 'h4v7h-8v-7z', event: 'v8' };
    const drawFrame = () => {
      const [from, to] = range();
      let out = '', occupied = -Infinity;
      const ticks = timeTicks(from, to, tickGap()), fine = ticks.length > 1 && ticks[1] - ticks[0] < 1;
      const clockTicks = (y) => ticks.map((at) => text(xOf(at), y, 'tick centred', clock(at, fine))).join('');
      for (const span of data.spans) {
        if (span.to < from || span.from > to) continue;
        const [x1, x2] = [xOf(Math.max(span.from, from)), xOf(Math.min(span.to, to))];
        out += rect(x1, 4, x2, 18, span.measured ? 'ph-measured' : 'ph-left-out');
        if (span.name.length * 6.2 + 6 < x2 - x1) out += text((x1 + x2) / 2, 14.6, span.measured ? 'ph-name on' : 'ph-name', span.name);
      }
      const flags = data.notes.filter((note) => note.to !== null && inside(note.to)).sort((a, b) => a.to - b.to);
      for (const [i, note] of flags.entries()) {
        const x = xOf(note.to), free = i + 1 < flags.length ? xOf(flags[i + 1].to) - 6 : Infinity;
        out += `<g class="flag ${note.kind}"><title>${escaped(note.text)}</title><path d="M${px(x)} 23${FLAGS[note.kind] || FLAGS.event}"/></g>`;
        if (note.kind !== 'checkpoint') continue;
        out += line(x, 30, x, 56, 'cp-end');
        if (x > occupied && x + 76 < free && !narrow) { out += text(x + 10, 30.4, 'cp-name', 'checkpoint'); occupied = x + 76; }
      }
      ribbon.innerHTML = out + clockTicks(48);
      foot.innerHTML = clockTicks(14) + (narrow ? '' : text(geometry.right + 12, 14, 'tick from-left quiet', 'minutes:seconds of load'));
      ribbon.setAttribute('viewBox', `0 0 ${geometry.width} 56`);
      foot.setAttribute('viewBox', `0 0 ${geometry.width} 22`);
      shown.textContent = view.zoom ? `${clock(from, true)} to ${clock(to, true)} of ${clock(data.to - data.from)}` : `the whole run, ${clock(data.to - data.from)}`;
    };
    // What is in view is drawn at once, as fine as it can be once the view rests; what is not,
    // when the page has nothing else to do.
    const stale = new Set(), rough = new Set();
    let resting = 0;
    const drawOne = (id) => {
      stale.delete(id);
      rough.delete(id);
      coarse = false;
      const panel = panels.find((panel) => panel.id === id);
      if (panel) drawPanel(panel); else drawMap();
      tools(panel || MAP);
      if (coarse || extent) rough.add(id);
      if (!moving) show(pointing ?? view.at, id);
    };
    const inView = (id) => {
      const { top, bottom } = figures[id].figure.getBoundingClientRect();
      return bottom > -60 && top < innerHeight + 60;
    };
    const drawSeen = () => [...stale].filter(inView).forEach(drawOne);
    const drawAll = () => [...stale, ...rough].forEach(drawOne);
    const rest = () => {
      const [id] = [...rough, ...stale];
      if (id === undefined) return;
      drawOne(id);
      resting = setTimeout(rest);
    };
    let before = null;
    const drawMoving = (seen) => {
      const [from, to] = range(), width = to - from;
      const panned = before && before[0] !== from && Math.abs(before[1] - before[0] - width) < 1e-9 * (Math.abs(from) + Math.abs(to));
      const onward = panned && before[0] < from;
      before = [from, to];
      if (panned) extent = [Math.max(data.from, from - width / 2), Math.min(data.to, to + width / 2)];
      const still = seen.filter((id) => { if (!pan(id)) return true; stale.delete(id); return false; });
      // Of those that come near the end of what was drawn one is drawn a frame, before all have to be.
      const left = (id) => { const drawn = kept.get(id).reach; return onward ? drawn[1] - to : from - drawn[0]; };
      const ahead = panned ? (onward ? extent[1] - to : from - extent[0]) : 0;
      const [next] = still.length ? [] : seen.filter((id) => left(id) < ahead / 2).sort((a, b) => left(a) - left(b));
      (next ? [next] : still).forEach(drawOne);
      extent = null;
    };
    const draw = () => {
      if (!data) return;
      clearTimeout(resting);
      anyPercentile();
      for (const panel of panels) stale.add(panel.id);
      if (figures.map && data.map) stale.add('map');
      const seen = [...stale].filter(inView);
      drawFrame();
      moving = true;
      drawMoving(seen);
      moving = false;
      show(pointing ?? view.at);
      changes();
      resting = setTimeout(rest, 120);
    };
    addEventListener('scroll', () => { if (stale.size) requestAnimationFrame(drawSeen); }, { passive: true });
    addEventListener('beforeprint', drawAll);

    // The crosshair.
    const nearest = (times, at) => {
      if (!times.length) return -1;
      const next = lower(times, at);
      const best = next === times.length || (next > 0 && at - times[next - 1] <= times[next] - at) ? next - 1 : next;
      const step = times.length > 1 ? (times[times.length - 1] - times[0]) / (times.length - 1) : Infinity;
      return Math.abs(times[best] - at) <= 1.5 * step ? best : -1;
    };
    const show = (at, only) => {
      const [from, to] = range();
      const seen = at !== null && at >= from && at <= to;
      box.classList.toggle('pointing', seen);
      const x = seen ? px(xOf(at)) : 0;
      if (seen) {
        moment.textContent = clock(at, to - from < 60);
        moment.style.left = `${x / geometry.width * 100}%`;
      }
      for (const panel of panels) {
        if (only ? panel.id !== only : stale.has(panel.id)) continue;
        const [tracks] = tracksOf(panel);
        panel.cross.setAttribute('x1', x);
        panel.cross.setAttribute('x2', x);
        tracks.forEach((track, i) => {
          const place = seen ? nearest(track.times, at) : -1;
          const value = seen ? (place < 0 ? NaN : track.values[place]) : track.typical;
          const said = value === null || value === undefined ? '' : value === value ? write[panel.unit](value) : '–';
          if (panel.values[i].textContent !== said) panel.values[i].textContent = said;
        });
      }
      const map = figures.map;
      if (map && data.map && (only ? only === 'map' : !stale.has('map'))) {
        map.cross.setAttribute('x1', x);
        map.cross.setAttribute('x2', x);
        const counts = seen ? columnsIn(at - data.map.column / 2, at + data.map.column / 2)[0]?.[1] : null;
        map.value.textContent = counts ? `${grouped(String(counts.reduce((a, b) => a + b, 0)))} in ${seconds(data.map.column)}` : '';
      }
    };
    const say = (at) => {
      const said = panels.flatMap((panel) => tracksOf(panel)[1].slice(0, 2).map((track) => {
        const place = nearest(track.times, at);
        return place < 0 || track.values[place] !== track.values[place] ? '' : `${panel.title}, ${track.name} ${write[panel.unit](track.values[place])}`;
      })).filter(Boolean);
      const near = data.notes.filter((note) => note.to !== null && Math.abs(note.to - at) < 1).map((note) => note.text);
      told.textContent = `${clock(at, true)}: ${[...near, ...said.slice(0, 6)].join('; ')}`;
    };

    // Pointer and keys.
    const timeAt = (event) => {
      const frame = ribbon.getBoundingClientRect();
      const x = (event.clientX - frame.left) / frame.width * geometry.width;
      const [from, to] = range();
      return [x, from + (x - geometry.left) / (geometry.right - geometry.left) * (to - from)];
    };
    const brush = make('div', { class: 'brush', 'aria-hidden': 'true', hidden: '' });
    let drag = null, frame = 0;
    const onPlot = (event) => event.target.closest('svg') && !event.target.closest('.legend');
    box.addEventListener('pointerdown', (event) => {
      if (!data || event.button !== 0 || !onPlot(event)) return;
      const [x, at] = timeAt(event);
      if (x < geometry.left - 4 || x > geometry.right + 4) return;
      drag = { at, x: event.clientX, moved: false, mark: marking || event.shiftKey };
      box.setPointerCapture(event.pointerId);
    });
    box.addEventListener('pointermove', (event) => {
      if (!data) { load(); return; }
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => {
        const [x, at] = timeAt(event);
        const [from, to] = range();
        if (drag && (drag.moved || Math.abs(event.clientX - drag.x) > 4)) {
          drag.moved = true;
          const ends = [clamp(Math.min(drag.at, at), from, to), clamp(Math.max(drag.at, at), from, to)];
          drag.ends = ends;
          brush.hidden = false;
          brush.className = drag.mark ? 'brush marks' : 'brush';
          brush.style.left = `${xOf(ends[0]) / geometry.width * 100}%`;
          brush.style.width = `${(xOf(ends[1]) - xOf(ends[0])) / geometry.width * 100}%`;
        }
        pointing = x < geometry.left - 4 || x > geometry.right + 4 ? null : clamp(at, from, to);
        show(pointing ?? view.at);
      });
    });
    const release = (event, done) => {
      if (!drag) return;
      const [, at] = timeAt(event);
      const was = drag;
      drag = null;
      brush.hidden = true;
      if (!done) return;
      const [from, to] = range();
      if (Math.abs(event.clientX - was.x) > 4) {
        const ends = [clamp(Math.min(was.at, at), from, to), clamp(Math.max(was.at, at), from, to)];
        if (ends[1] > ends[0]) set(was.mark ? { mark: ends } : { zoom: ends });
      } else set({ at: clamp(at, from, to) });
    };
    box.addEventListener('pointerup', (event) => release(event, true));
    box.addEventListener('pointercancel', (event) => release(event, false));
    box.addEventListener('dblclick', (event) => { if (data && onPlot(event)) set({ zoom: null, at: null }); });
    box.addEventListener('pointerleave', () => { if (drag || !data) return; cancelAnimationFrame(frame); pointing = null; show(view.at); });
    box.addEventListener('wheel', (event) => {
      if (!data || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      zoomBy(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event)[1]);
    }, { passive: false });
    const solo = (legend) => {
      const svg = legend.closest('svg');
      const panel = panels.find((p) => p.id === svg.dataset.panel);
      const name = tracksOf(panel)[0][legend.dataset.track].name;
      if (view.solo.get(panel.id) === name) view.solo.delete(panel.id); else view.solo.set(panel.id, name);
      set({});
    };
    box.addEventListener('click', (event) => {
      const legend = event.target.closest('.legend[role]');
      if (legend) solo(legend);
    });
    const zoomBy = (factor, around) => load().then(() => {
      const [from, to] = range();
      const middle = clamp(around ?? pointing ?? view.at ?? (from + to) / 2, from, to);
      set({ zoom: [middle - (middle - from) * factor, middle + (to - middle) * factor] });
    });
    box.addEventListener('focus', () => load());
    box.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const legend = event.target.closest('.legend[role]');
      if (legend && (event.key === 'Enter' || event.key === ' ')) { event.preventDefault(); solo(legend); return; }
      if (event.target !== box && !legend) return;
      const press = (act) => { event.preventDefault(); load().then(act); };
      const far = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (far) {
        press(() => {
          const [from, to] = range();
          const times = panels[0]?.tracks[0]?.times || [];
          const unit = Math.max((to - from) / (geometry.right - geometry.left), times.length > 1 ? (times[times.length - 1] - times[0]) / (times.length - 1) : 1);
          const before = view.at ?? (far > 0 ? from : to);
          const at = view.at === null ? before : clamp(before + far * unit, data.from, data.to);
          const change = { at };
          if (event.shiftKey) {
            const anchor = view.mark && (view.mark[0] === before ? view.mark[1] : view.mark[1] === before ? view.mark[0] : null);
            const other = anchor ?? before;
            change.mark = other === at ? null : [Math.min(other, at), Math.max(other, at)];
          }
          if (at < from || at > to) { const half = (to - from) / 2; change.zoom = [at - half, at + half]; }
          set(change);
          say(at);
        });
      } else if (event.key === '+' || event.key === '=') press(() => zoomBy(0.5));
      else if (event.key === '-' || event.key === '−') press(() => zoomBy(2));
      else if (event.key === '0') press(() => set({ zoom: null }));
      else if (event.key === 'Home' || event.key === 'End') press(() => { const at = range()[event.key === 'Home' ? 0 : 1]; set({ at }); say(at); });
      else if (event.key === 'Enter' && view.mark) press(() => set({ zoom: view.mark }));
      else if (event.key === '[' || event.key === ']') {
        press(() => {
          const here = view.at ?? range()[0];
          const places = data.notes.map((note) => note.to).filter((at) => at !== null);
          const at = event.key === ']' ? places.find((place) => place > here + 1e-3) : places.filter((place) => place < here - 1e-3).pop();
          if (at === undefined) return;
          const [from, to] = range(), half = (to - from) / 2;
          set(at < from || at > to ? { at, zoom: [at - half, at + half] } : { at });
          say(at);
        });
      } else if (event.key === 'Escape' && data) {
        event.preventDefault();
        pointing = null;
        set(view.at !== null ? { at: null } : view.mark ? { mark: null } : view.solo.size ? { solo: new Map() } : { zoom: null });
      }
    });

    // What a panel gives away.
    const rowsOf = (panel) => {
      const [from, to] = range();
      const seen = tracksOf(panel)[1];
      const times = [...new Set(seen.flatMap((track) => [...track.times.subarray(lower(track.times, from), lower(track.times, to + 1e-6))]))].sort((a, b) => a - b);
      return times.map((at) => [at, ...seen.map((track) => { const i = lower(track.times, at); return track.times[i] === at && track.values[i] === track.values[i] ? track.values[i] : null; })]);
    };
    const unitOf = (panel) => ({ rate: 'per second', seconds: 'seconds', bytes: 'bytes per second', share: 'fraction', count: panel.of })[panel.unit];
    const field = (name) => (/[",\n\r]/.test(name) ? `"${name.replace(/"/g, '""')}"` : name);
    // What of the map is in view: the middle of each column, the ends of each row, and how many.
    const CELL = ['seconds', 'longer than (seconds)', 'up to (seconds)', 'transactions'];
    const cells = () => {
      const [from, to] = range(), { map } = data;
      const rounded = (value) => Number(value.toPrecision(6));
      return map.columns.flatMap(([row, counts], c) => {
        const begin = map.from + c * map.column;
        if (begin + map.column <= from || begin >= to) return [];
        return counts.flatMap((count, i) => (count ? [[rounded(begin + map.column / 2), rounded(edge(row + i)), rounded(edge(row + i + 1)), count]] : []));
      });
    };
    const lines = (panel) => (panel === MAP ? [CELL, ...cells()] : [['seconds', ...tracksOf(panel)[1].map((track) => field(`${track.name} (${unitOf(panel)})`))], ...rowsOf(panel)]);
    const csv = (panel) => lines(panel).map((row) => row.map((cell) => cell ?? '').join(',')).join('\n') + '\n';
    const json = (panel) => {
      if (panel === MAP) return JSON.stringify({ page: document.title, panel: panel.title, from: range()[0], to: range()[1], heads: CELL, cells: cells() });
      const rows = rowsOf(panel);
      const tracks = tracksOf(panel)[1].map((track, i) => ({ name: track.name, points: rows.filter((row) => row[i + 1] !== null).map((row) => [row[0], row[i + 1]]) }));
      return JSON.stringify({ page: document.title, panel: panel.title, unit: unitOf(panel), from: range()[0], to: range()[1], tracks });
    };
    // A picture that stands alone: what the style of the page gives it is written into it.
    const PROPERTIES = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'stroke-linejoin', 'stroke-linecap', 'paint-order', 'vector-effect', 'font-size', 'font-weight', 'text-anchor', 'visibility'];
    const picture = (panel) => {
      const { svg } = figures[panel.id];
      const copy = svg.cloneNode(true);
      const from = [svg, ...svg.querySelectorAll('*')], to = [copy, ...copy.querySelectorAll('*')];
      from.forEach((element, i) => {
        const style = getComputedStyle(element);
        for (const name of PROPERTIES) to[i].setAttribute(name, style.getPropertyValue(name));
        for (const name of ['class', 'tabindex', 'role', 'aria-pressed', 'aria-label', 'data-track', 'data-panel']) to[i].removeAttribute(name);
      });
      const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
      const style = getComputedStyle(document.body);
      copy.setAttribute('viewBox', `0 -26 ${width} ${height + 26}`);
      copy.setAttribute('width', width);
      copy.setAttribute('height', height + 26);
      copy.setAttribute('font-family', style.fontFamily);
      const name = one('b', figures[panel.id].figure).textContent;
      copy.insertAdjacentHTML('afterbegin', `<rect x="0" y="-26" width="${width}" height="${height + 26}" fill="${style.backgroundColor}"/><text x="${geometry.left}" y="-9" font-size="13.5" font-weight="600" fill="${style.color}">${escaped(name)}</text>`);
      return [new XMLSerializer().serializeToString(copy), width, height + 26];
    };
    const save = (blob, name) => {
      const address = URL.createObjectURL(blob);
      make('a', { href: address, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    };
    const fileName = (panel, kind) => `${(one('.kicker .mono')?.textContent || 'walwright').replace(/[^\w.-]+/g, '_')}-${panel.id}.${kind}`;
    const png = (panel) => {
      const [markup, width, height] = picture(panel);
      const address = URL.createObjectURL(new Blob([markup], { type: 'image/svg+xml' }));
      const image = new Image();
      image.onload = () => {
        const canvas = make('canvas', { width: width * 2, height: height * 2 });
        canvas.getContext('2d').drawImage(image, 0, 0, width * 2, height * 2);
        URL.revokeObjectURL(address);
        canvas.toBlob((blob) => save(blob, fileName(panel, 'png')), 'image/png');
      };
      image.src = address;
    };
    const table = (panel) => {
      const { figure } = figures[panel.id];
      const old = one('.numbers', figure);
      if (old) { old.remove(); return false; }
      const [from, to] = range();
      const seen = tracksOf(panel)[1];
      const rows = rowsOf(panel), together = Math.max(1, Math.ceil(rows.length / 40));
      const head = make('tr', {}, make('th', { scope: 'col' }, 'At'), ...seen.map((track) => make('th', { scope: 'col', class: 'n' }, track.name)));
      const body = make('tbody');
      for (let i = 0; i < rows.length; i += together) {
        const group = rows.slice(i, i + together);
        body.append(make('tr', {}, make('th', { scope: 'row' }, clock(group[0][0], to - from < 60)), ...seen.map((_, k) => {
          const known = group.map((row) => row[k + 1]).filter((value) => value !== null);
          return make('td', { class: 'n' }, known.length ? write[panel.unit](known.reduce((a, b) => a + b, 0) / known.length) : '–');
        })));
      }
      const said = `${panel.title}, ${clock(from, true)} to ${clock(to, true)}${together > 1 ? `; each row the mean of ${together} values` : ''}`;
      figure.append(make('div', { class: 'numbers scroll', tabindex: '0', role: 'group', 'aria-label': said }, make('table', {}, make('caption', {}, said), make('thead', {}, head), body)));
      return true;
    };
    const tools = (panel) => {
      const { figure } = figures[panel.id];
      let row = one('.give', figure);
      if (!row) {
        const of = (text, act, label) => button(text, act, { 'aria-label': `${panel.title}: ${label}` });
        row = make('span', { class: 'give screen' });
        if (panel !== MAP && panel.marks !== 'stack') row.append(button('Log', () => { if (view.log.has(panel.id)) view.log.delete(panel.id); else view.log.add(panel.id); set({}); }, { class: 'log', 'aria-label': `${panel.title}: logarithmic scale` }));
        if (panel !== MAP) {
          const numbers = of('Table', () => numbers.setAttribute('aria-expanded', String(table(panel))), 'as a table');
          numbers.setAttribute('aria-expanded', 'false');
          row.append(numbers);
        }
        row.append(of('CSV', () => copy(csv(panel), `${panel.title} was copied as CSV.`), 'copy as CSV'),
          of('JSON', () => copy(json(panel), `${panel.title} was copied as JSON.`), 'copy as JSON'),
          of('SVG', () => save(new Blob([picture(panel)[0]], { type: 'image/svg+xml' }), fileName(panel, 'svg')), 'download as SVG'),
          of('PNG', () => png(panel), 'download as PNG'));
        if (panel.id === 'latency' && data.map) {
          const chosen = make('input', { type: 'number', min: '0.1', max: '99.999', step: 'any', placeholder: '99.9', 'aria-label': 'Another percentile' });
          chosen.addEventListener('change', () => set({ p: chosen.value && chosen.value > 0 && chosen.value < 100 ? Number(chosen.value) : null }));
          row.prepend(make('label', {}, 'p ', chosen));
        }
        one('figcaption', figure).append(row);
      }
      const log = one('.log', row), pressed = String((panel.marks === 'log') !== view.log.has(panel.id));
      if (log && log.getAttribute('aria-pressed') !== pressed) log.setAttribute('aria-pressed', pressed);
      const p = one('input', row), wanted = String(view.p ?? '');
      if (p && document.activeElement !== p && p.value !== wanted) p.value = wanted;
    };
    const copy = (what, said) => copied(what).then((done) => { told.textContent = done ? said : 'The browser does not let this page copy.'; });

    // What changed in the marked stretch against the rest: each figure by how far its mean moved
    // beyond what its own noise explains. Neighbouring seconds are alike, so they count as fewer.
    const median = (values) => {
      const sorted = Float64Array.from(values).sort(), middle = sorted.length >> 1;
      return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    };
    const moments = (values) => {
      const n = values.length;
      const mean = values.reduce((a, b) => a + b, 0) / n;
      // One stall is no noise: it does not count for more than four deviations of the others.
      const centre = median(values), deviation = 1.4826 * median(values.map((value) => Math.abs(value - centre)));
      const calm = deviation > 0 ? values.map((value) => clamp(value, centre - 4 * deviation, centre + 4 * deviation)) : values;
      const level = calm.reduce((a, b) => a + b, 0) / n;
      let square = 0, next = 0;
      for (let i = 0; i < n; i += 1) { square += (calm[i] - level) ** 2; if (i) next += (calm[i] - level) * (calm[i - 1] - level); }
      const alike = square > 0 ? clamp(next / square, 0, 0.98) : 0;
      return { n, mean, level, variance: n > 1 ? square / (n - 1) : 0, alone: Math.max(1, n * (1 - alike) / (1 + alike)) };
    };
    const compare = (from, to) => {
      const [low, high] = data.window && to > data.window[0] && from < data.window[1] ? data.window : [data.from, data.to];
      const found = [];
      for (const panel of panels) {
        for (const track of panel.tracks) {
          const within = [], rest = [];
          for (let i = 0; i < track.times.length; i += 1) {
            const at = track.times[i], value = track.values[i];
            if (value !== value || at < low || at > high) continue;
            (at >= from && at <= to ? within : rest).push(value);
          }
          if (within.length < 3 || rest.length < 5) continue;
          const a = moments(within), b = moments(rest);
          // A stretch shorter than the waves of a figure says little of its own noise: the rest's counts for it.
          const variance = Math.max(a.variance, b.variance);
          const alone = Math.max(1, a.n * b.alone / b.n);
          const error = Math.sqrt(variance / alone + b.variance / b.alone) || Math.abs(b.mean) * 1e-3;
          // Nor did a stretch change because the rest has a stall.
          const [of, most] = [a.mean - b.mean, a.mean - b.level];
          const moved = error > 0 && of * most > 0 ? Math.sign(of) * Math.min(Math.abs(of), Math.abs(most)) / error : 0;
          if (Math.abs(moved) >= 3) found.push({ panel, track, within: a.mean, rest: b.mean, moved });
        }
      }
      return found.sort((a, b) => Math.abs(b.moved) - Math.abs(a.moved));
    };
    const ratio = (found) => {
      if (!(found.rest > 0)) return 'from 0';
      const times = found.within / found.rest;
      return times >= 10 ? `${number(times)} times` : `${times >= 1 ? '+' : '−'}${percent(Math.abs(times - 1))}`;
    };
    const CLEAREST = 12;
    let compared = '';
    const changes = () => {
      const key = view.mark ? `${view.mark}/${data.to}` : '';
      if (key === compared) return;
      compared = key;
      changed.hidden = !view.mark;
      if (!view.mark) { changed.textContent = ''; return; }
      const [from, to] = view.mark;
      const found = compare(from, to);
      const head = make('h3', {}, `What changed here? ${clock(from, true)} to ${clock(to, true)} against the rest`);
      const acts = make('p', { class: 'acts' }, button('Zoom to it', () => set({ zoom: view.mark })), ' ', button('Clear', () => set({ mark: null })));
      const happened = data.notes.filter((note) => (note.to ?? data.to) >= from && (note.from ?? note.to) <= to);
      const parts = [head];
      if (happened.length) {
        const said = happened.slice(0, 12).map((note) => `${clock(note.to ?? note.from, true)} ${note.text}`);
        if (happened.length > 12) said.push(`and ${happened.length - 12} more`);
        parts.push(make('p', {}, `In it: ${said.join('; ')}`));
      }
      if (data.map) {
        const [low, high] = data.window || [data.from, data.to];
        const within = columnsIn(from, to);
        const rest = data.map.columns.filter((column, i) => { const at = data.map.from + (i + 0.5) * data.map.column; return at >= low && at <= high && !within.includes(column); });
        const said = [50, 99, view.p].filter((p) => p !== null).map((p) => `p${p} ${seconds(percentileOf(within, p))} against ${seconds(percentileOf(rest, p))}`);
        if (within.some((column) => column[1].length) && rest.length) parts.push(make('p', {}, `Latency, about: ${said.join('; ')}.`));
      }
      if (found.length) {
        const most = Math.abs(found[0].moved);
        const cell = (text, name) => make('td', { class: name }, text);
        const rows = found.slice(0, CLEAREST).map((one) => {
          const bar = make('i', { class: `length ${one.track.ink}` });
          bar.style.width = `${Math.abs(one.moved) / most * 100}%`;
          const moved = cell(`${one.moved > 0 ? '▲' : '▼'} ${Math.abs(one.moved) >= 100 ? '>99' : number(Math.abs(one.moved))}`, 'n');
          moved.append(bar);
          const where = make('a', { href: '#timeline' }, one.panel.title);
          where.addEventListener('click', (event) => { event.preventDefault(); figures[one.panel.id].figure.scrollIntoView({ block: 'center' }); });
          const name = make('td', {}, where, `, ${one.track.name}`);
          const spell = write[one.panel.unit];
          return make('tr', {}, name, cell(spell(one.within), 'n'), cell(spell(one.rest), 'n'), cell(ratio(one), 'n'), moved);
        });
        const heads = ['Figure', 'Here', 'The rest', 'Change', 'Beyond its noise'].map((name, i) => make('th', { scope: 'col', class: i ? 'n' : '' }, name));
        parts.push(make('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Changes, the clearest first' }, make('table', {}, make('thead', {}, make('tr', {}, ...heads)), make('tbody', {}, ...rows))));
        if (found.length > CLEAREST) parts.push(make('p', { class: 'muted' }, `${found.length - CLEAREST} more moved less clearly.`));
        parts.push(make('p', { class: 'muted' }, 'Means; the clearest first: how many standard errors the mean here lies from that of the rest. What moved together need not be the cause.'));
      } else parts.push(make('p', {}, to - from < 3 ? 'Too short to tell: mark at least three samples.' : 'No figure moved beyond its own noise.'));
      changed.replaceChildren(...parts, acts);
    };

    const ready = () => {
      panels = data.panels.filter((panel) => figures[panel.id]);
      box.append(brush);
      measure();
      view = read(location.hash);
      set({}, true);
    };
    let width = 0;
    new ResizeObserver(() => {
      if (!data || box.parentElement.clientWidth === width) return;
      width = box.parentElement.clientWidth;
      measure();
      draw();
      drawAll();
    }).observe(box.parentElement);
    addEventListener('hashchange', (event) => {
      // What was followed, even if an earlier view has been put into the address since.
      const followed = new URL(event.newURL).hash;
      if (!followed.includes('=')) return;
      load().then(() => { view = read(followed); set({}); box.scrollIntoView({ block: 'nearest' }); });
    });
    // What is in the page is read once it is drawn; what is not, when somebody reaches for it.
    const wanted = location.hash.includes('=') || box.parentElement.clientWidth < NARROW;
    if (wanted || one('#series')) requestAnimationFrame(() => setTimeout(load));
    if (wanted && location.hash.includes('=')) box.scrollIntoView({ block: 'nearest' });

    return {
      // Figures that came since: what was known of that time on is replaced.
      append(sheet) {
        load().then(() => {
          const late = parse(sheet);
          for (const panel of data.panels) {
            const news = late.panels.find((other) => other.id === panel.id);
            if (!news) continue;
            panel.rules = news.rules;
            panel.tracks = panel.tracks.map((track) => {
              const more = news.tracks.find((other) => other.name === track.name);
              if (!more) return track;
              const keep = more.times.length ? lower(track.times, more.times[0] - 1e-6) : track.times.length;
              const join = (a, b) => { const joined = new Float64Array(keep + b.length); joined.set(a.subarray(0, keep)); joined.set(b, keep); return joined; };
              return { ...track, typical: more.typical, times: join(track.times, more.times), values: join(track.values, more.values) };
            });
          }
          if (data.map && late.map && data.map.column === late.map.column) {
            const keep = Math.max(0, Math.round((late.map.from - data.map.from) / data.map.column));
            data.map.columns = data.map.columns.slice(0, keep).concat(late.map.columns);
          }
          news += 1;
          Object.assign(data, { to: late.to, window: late.window, spans: late.spans, notes: late.notes });
          later();
        });
      },
      set: (change) => load().then(() => set(change)),
      view: () => ({ ...view, solo: [...view.solo], log: [...view.log], range: data && range() }),
      compare: (from, to) => compare(from, to).map(({ panel, track, within, rest, moved }) => ({ panel: panel.id, track: track.name, within, rest, moved })),
      text: (id, kind) => { const panel = [MAP, ...panels].find((p) => p.id === id); return kind === 'csv' ? csv(panel) : kind === 'json' ? json(panel) : picture(panel)[0]; },
      drawAll,
      percentile: (p) => percentileOf(columnsIn(...(data.window || [data.from, data.to])), p),
    };
  }

  // To the clipboard, where the page may write to it.
  const copied = (what) => {
    const aside = () => {
      const area = make('textarea', { class: 'aside' });
      area.value = what;
      document.body.append(area);
      area.select();
      const done = document.execCommand('copy');
      area.remove();
      return done;
    };
    return navigator.clipboard && isSecureContext ? navigator.clipboard.writeText(what).then(() => true, aside) : Promise.resolve(aside());
  };
  const dress = (of) => {
    for (const code of all('.action code, pre', of)) {
      if (code.nextElementSibling?.classList.contains('copy')) continue;
      const take = button('Copy', () => copied(code.textContent).then((done) => {
        take.textContent = done ? 'Copied' : 'Not copied';
        setTimeout(() => { take.textContent = 'Copy'; }, 2000);
      }), { class: 'copy screen', 'aria-label': `Copy: ${code.textContent.slice(0, 60)}` });
      code.after(take);
    }
    for (const head of all('table.sortable th', of)) {
      if (one('button', head)) continue;
      const sort = button(head.textContent, () => {
        const column = [...head.parentElement.children].indexOf(head);
        const down = head.getAttribute('aria-sort') === 'ascending';
        for (const other of head.parentElement.children) other.removeAttribute('aria-sort');
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        const body = one('tbody', head.closest('table'));
        const key = (row) => row.children[column]?.dataset.sort ?? row.children[column]?.textContent ?? '';
        const rows = [...body.children].sort((a, b) => key(a).localeCompare(key(b), 'en', { numeric: true }));
        body.append(...(down ? rows.reverse() : rows));
      });
      head.replaceChildren(sort);
    }
    for (const filter of all('input[data-filters]', of)) {
      filter.addEventListener('input', () => {
        const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
        for (const row of all(`#${CSS.escape(filter.dataset.filters)} tbody tr`)) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      });
    }
    // A choice of faces is kept in the address.
    for (const face of all('.faces > input', of)) {
      const read = () => { if (new URLSearchParams(location.hash.slice(1)).get(face.name) === face.value) face.checked = true; };
      read();
      addEventListener('hashchange', read);
      face.addEventListener('change', () => history.replaceState(null, '', `#${face.name}=${face.value}`));
    }
    // More than can be compared are not ticked.
    for (const form of all('form[data-most]', of)) {
      const ticks = () => all(`input[type=checkbox][form="${form.id}"]`);
      const count = () => {
        const ticked = ticks().filter((tick) => tick.checked).length;
        for (const tick of ticks()) tick.disabled = !tick.checked && ticked >= form.dataset.most;
        one('button', form).disabled = ticked < form.dataset.least;
      };
      document.addEventListener('change', (event) => { if (event.target.form === form) count(); });
      // What was ticked before is ticked again when one comes back, which is not told as a change.
      addEventListener('pageshow', count);
      count();
    }
    // What scrolls is reached by keyboard.
    for (const scrolls of all('.scroll, pre, .wide', of)) {
      if (scrolls.scrollWidth > scrolls.clientWidth && !scrolls.hasAttribute('tabindex')) {
        scrolls.tabIndex = 0;
        if (!scrolls.hasAttribute('role')) { scrolls.setAttribute('role', 'group'); scrolls.setAttribute('aria-label', 'Scrolls sideways'); }
      }
    }
  };
  dress(document);

  // A page that follows what it shows: parts whose markup changed are replaced.
  const main = one('main[data-live]');
  if (main) {
    let source = null, busy = false, again = false;
    const refresh = async () => {
      if (busy) { again = true; return; }
      busy = true;
      try {
        const answer = await fetch(location.pathname + location.search);
        if (answer.ok) {
          const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
          const parts = [['main > header', one('main > header'), one('main > header', fresh)]];
          for (const section of all('main > section', fresh)) parts.push([section.id, document.getElementById(section.id), section]);
          for (const [, old, now] of parts) {
            if (!now) continue;
            if (!old) { one('main > footer').before(document.importNode(now, true)); continue; }
            if (one('.timeline', old) && one('.timeline', now)) continue;
            if (old.dataset.markup === now.innerHTML) continue;
            const first = old.dataset.markup === undefined;
            old.dataset.markup = now.innerHTML;
            if (first && old.textContent.replace(/Copy|\s/g, '') === now.textContent.replace(/Copy|\s/g, '')) continue;
            if (old.contains(document.activeElement) && document.activeElement.matches('input, textarea, select')) { old.dataset.markup = ''; continue; }
            const unfolded = new Set(all('details[open] > summary', old).map((summary) => summary.textContent));
            old.innerHTML = now.innerHTML;
            for (const summary of all('details > summary', old)) if (unfolded.has(summary.textContent)) summary.parentElement.open = true;
            dress(old);
          }
          document.title = fresh.title;
        }
      } catch { /* The server is away: the next event, or the reader, asks again. */ }
      busy = false;
      if (again) { again = false; refresh(); }
    };
    const follow = () => {
      source = new EventSource(main.dataset.live);
      source.addEventListener('series', (event) => sheet && sheet.append(JSON.parse(event.data)));
      source.addEventListener('page', refresh);
      source.addEventListener('end', () => { source.close(); source = null; main.removeAttribute('data-live'); refresh(); });
    };
    follow();
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) { source?.close(); source = null; } else if (!source && main.dataset.live) follow();
    });
  }

  // For tests of the page.
  window.walwright = { sheet, write, clock, number };
})();
