// What the pages have beyond plain HTML: the theme, ids that copy, suggestions of the search, and pages that
// are kept up to date. Every page works without it.
'use strict';
const root = document.documentElement;
const kept = name => { try { return localStorage.getItem(name); } catch { return null; } };
const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* until the page is left */ } };
const themes = ['light', 'dark'];
if (themes.includes(kept('theme'))) root.dataset.theme = kept('theme');

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = themes[dark ? 0 : 1];
  keep('theme', root.dataset.theme);
}

// copy copies a text. A page without TLS has no clipboard, and copies what is selected.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true, () => false);
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}

// copies puts a button beside each id of a part of the page.
function copies(part) {
  for (const id of part.querySelectorAll('[data-copy]')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.title = 'Copy';
    button.setAttribute('aria-label', 'Copy ' + id.textContent);
    button.innerHTML = '<svg class="i" aria-hidden="true"><use href="#i-copy"/></svg>';
    button.addEventListener('click', async () => {
      if (!await copy(id.dataset.copy)) return;
      button.classList.add('copied');
      setTimeout(() => button.classList.remove('copied'), 1500);
    });
    id.after(button);
  }
}

// suggest offers what the words in the search may mean. A suggestion that is chosen is opened; where several have
// its name, the search shows them all. Words that are typed open nothing: there may be more to come.
function suggest(field, list) {
  let timer, hits = new Map();
  field.addEventListener('input', event => {
    clearTimeout(timer);
    const words = field.value.trim(), found = hits.get(field.value);
    const chosen = found && (!event.inputType || event.inputType === 'insertReplacementText');
    if (chosen && found.length === 1) location.href = found[0];
    else if (chosen) field.form.requestSubmit();
    else if (words) timer = setTimeout(async () => {
      const answer = await fetch(new URL('search.json?q=' + encodeURIComponent(words), field.form.action)).catch(() => null);
      if (!answer?.ok || field.value.trim() !== words) return;
      hits = new Map();
      list.replaceChildren(...(await answer.json()).hits.map(h => {
        hits.set(h.name, [...hits.get(h.name) ?? [], new URL(h.href, field.form.action).href]);
        return new Option([h.kind, h.lane, h.state].filter(Boolean).join(', '), h.name);
      }));
    }, 150);
  });
}

// live reads the page again once the server says that there is a newer look, unless it is paused. While
// nobody sees the page, it listens to nothing. A page that may be out of date says so: the server says every
// 16 seconds which look is the newest, and a minute without an answer is too long. A page on which somebody has
// begun to fill a form in stays as it is, and only the state in its header changes.
function live(link) {
  const again = new URLSearchParams(location.search).has('keep'), here = new URL(location.href);
  here.searchParams.set('keep', '1');
  here.hash = '';
  let touched = false;
  document.addEventListener('input', event => { touched ||= Boolean(event.target.closest('#main')); });
  link.hidden = false;
  let on = again || kept('live') !== 'off', stream, seen = link.dataset.look, timer, stale = false, at = new Date();
  const doubt = () => {
    if (stale || !on) return;
    stale = true;
    const old = document.getElementById('band'), band = document.createElement('a'), then = old?.querySelector('strong')?.textContent;
    band.id = 'band';
    band.href = './';
    band.className = 'band warn';
    band.innerHTML = '<svg class="i" aria-hidden="true"><use href="#i-warn"/></svg><strong></strong> <span></span>';
    band.querySelector('strong').textContent = 'Not kept up to date since ' + at.toLocaleTimeString();
    if (then) band.querySelector('span').textContent = 'It was then: ' + then;
    if (old) old.replaceWith(band);
    else document.querySelector('header').append(band);
  };
  const wait = () => {
    clearTimeout(timer);
    if (stream) timer = setTimeout(doubt, 60000);
  };
  const fresh = () => {
    stale = false;
    at = new Date();
    wait();
  };
  const look = async event => {
    const same = seen === event.data;
    seen = event.data;
    if (same && !stale) return fresh();
    const answer = await fetch(here).catch(() => null);
    const text = answer?.ok ? await answer.text().catch(() => '') : '';
    if (!on) return;
    const page = new DOMParser().parseFromString(text, 'text/html');
    if (!page.getElementById('main')) return doubt();
    const focus = document.activeElement?.getAttribute('href');
    const open = [...document.querySelectorAll('#main details')].map(part => part.open);
    for (const id of touched ? ['band'] : ['band', 'main']) document.getElementById(id)?.replaceWith(page.getElementById(id) ?? '');
    if (touched) return fresh();
    document.querySelectorAll('#main details').forEach((part, i, all) => { if (all.length === open.length) part.open = open[i]; });
    copies(document.getElementById('main'));
    if (focus) document.querySelector(`#main a[href="${CSS.escape(focus)}"]`)?.focus({preventScroll: true});
    fresh();
  };
  const leave = () => {
    stream?.close();
    stream = undefined;
  };
  const listen = () => {
    link.firstElementChild.classList.toggle('on', on);
    link.lastElementChild.textContent = on ? 'Pause live' : 'Go live';
    if (document.hidden || !on) {
      leave();
    } else if (!stream) {
      stream = new EventSource('live');
      stream.addEventListener('look', look);
      stream.addEventListener('fails', doubt);
      stream.addEventListener('over', () => {
        leave();
        listen();
      });
      stream.onerror = () => {
        doubt();
        if (stream?.readyState !== EventSource.CLOSED) return; // the browser asks again by itself
        leave();
        setTimeout(listen, 30000);
      };
    }
    wait();
  };
  link.addEventListener('click', event => {
    on = !on;
    keep('live', on ? 'on' : 'off');
    if (again) return; // the link leads to the page that stays as it is
    event.preventDefault();
    listen();
  });
  document.addEventListener('visibilitychange', listen);
  listen();
}

// confirms says in the console's words which word a field wants; the server checks it as well.
function confirms(event) {
  const word = event.target.dataset?.word;
  if (word) event.target.setCustomValidity(event.target.value.trim() === word ? '' : 'Type ' + word + ' to confirm.');
}

document.addEventListener('DOMContentLoaded', () => {
  const theme = document.getElementById('theme'), field = document.getElementById('q'), link = document.getElementById('live');
  theme.hidden = false;
  theme.addEventListener('click', switchTheme);
  copies(document);
  suggest(field, document.getElementById('hits'));
  if (link) live(link);
  for (const kind of ['input', 'invalid']) document.addEventListener(kind, confirms, true);
  document.addEventListener('keydown', event => {
    if (event.key !== '/' || event.target.closest('input, select, textarea')) return;
    event.preventDefault();
    field.focus();
  });
});
