// Values under the pointer: a crosshair through all panels of the timeline.
// Without this script the labels show the figures of the measured window.
(() => {
  const box = document.querySelector('.timeline');
  const data = document.getElementById('series');
  if (!box || !data) return;
  const { from, to, left, right, width, panels } = JSON.parse(data.textContent);
  const moment = box.querySelector('#moment span');
  const views = panels.map((panel) => {
    const svg = box.querySelector(`svg[data-panel="${panel.id}"]`);
    const values = [...svg.querySelectorAll('.value')];
    let times = [];
    const tracks = panel.tracks.map((track, i) => {
      times = track.t || times;
      return { times, texts: track.v.split('|'), value: values[i], resting: values[i].textContent };
    });
    return { svg, cross: svg.querySelector('.cross'), tracks };
  });
  const clock = (s) => {
    const whole = Math.round(Math.abs(s));
    const two = (n) => String(n).padStart(2, '0');
    const hours = Math.floor(whole / 3600);
    const minutes = Math.floor(whole / 60) % 60;
    return (s < -0.5 ? '\u2212' : '') + (hours ? `${hours}:${two(minutes)}` : minutes) + ':' + two(whole % 60);
  };
  // The nearest sample; none where the nearest is further than the series is coarse.
  const nearest = (times, at) => {
    let low = 0, high = times.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (times[middle] <= at) low = middle; else high = middle;
    }
    const best = at - times[low] > times[high] - at ? high : low;
    const step = times.length > 1 ? (times[times.length - 1] - times[0]) / (times.length - 1) : Infinity;
    return Math.abs(times[best] - at) <= 1.5 * step ? best : -1;
  };
  let now = null;
  const show = (at) => {
    now = Math.min(to, Math.max(from, at));
    const x = left + (now - from) / (to - from) * (right - left);
    box.classList.add('pointing');
    moment.textContent = clock(now);
    moment.style.left = `${x / width * 100}%`;
    for (const { cross, tracks } of views) {
      cross.setAttribute('x1', x);
      cross.setAttribute('x2', x);
      for (const { times, texts, value } of tracks) {
        const i = times.length ? nearest(times, now) : -1;
        value.textContent = i < 0 ? '\u2013' : texts[i];
      }
    }
  };
  const rest = () => {
    now = null;
    box.classList.remove('pointing');
    for (const { tracks } of views) for (const t of tracks) t.value.textContent = t.resting;
  };
  box.addEventListener('pointermove', (event) => {
    const frame = box.getBoundingClientRect();
    const x = (event.clientX - frame.left) / frame.width * width;
    if (x < left - 4 || x > right + 4) rest();
    else show(from + (x - left) / (right - left) * (to - from));
  });
  box.addEventListener('pointerleave', rest);
  box.addEventListener('blur', rest);
  box.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.key === 'Escape') rest();
    if (!step) return;
    event.preventDefault();
    show(now === null ? (step > 0 ? from : to) : now + step);
  });
})();
