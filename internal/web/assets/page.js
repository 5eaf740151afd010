// The page reads without this file. It adds the theme, times that stay true, updates as they happen, and keys.
(() => {
  "use strict";
  const d = document, data = d.documentElement.dataset, $ = (s, e = d) => e.querySelector(s), $$ = (s, e = d) => [...e.querySelectorAll(s)];
  const on = (e, name, f) => e.addEventListener(name, f);
  const off = () => { try { return localStorage["dts.keys"] } catch {} };

  // ---- words in the reader's language, in the order of texts.go
  const [IN, AGO, S, MIN, H, D, LIVE, LOST, REFUSED, AWAY, HELD, COPIED, PRESS, THEME, BELOW, NOW] = data.words.split("|");
  const say = (e, text) => { if (e && e.textContent !== text) e.textContent = text };
  const put = (text, arg) => text.replace("%s", arg);

  // ---- times: "4 min ago" stays true. The server's clock counts: <html data-now>, not this machine's.
  const skew = Date.parse(data.now) - Date.now();
  const now = () => new Date(Date.now() + skew);
  const clock = at => new Date(at).toLocaleString("sv", { timeZone: data.zone });
  const words = ms => {
    const s = Math.abs(ms) / 1000, [n, u] = s < 99.5 ? [s, S] : s < 5970 ? [s / 60, MIN] : s < 172800 ? [s / 3600, H] : [s / 86400, D];
    return s < .5 ? NOW : put(ms > 0 ? IN : AGO, put(u, Math.round(n)));
  };
  const tell = () => $$("time [data-rel]").forEach(e => say(e, words(Date.parse(e.closest("time").dateTime) - now())));

  // ---- live: the server sends whole elements; each replaces its namesake (id). Nothing moves under a pointer or a focus:
  // what would change there waits until both have left, or "." is pressed.
  const waiting = new Map();
  const busy = e => e.matches(":hover") || e.contains(d.activeElement);
  const parse = html => { const t = d.createElement("template"); t.innerHTML = html; return t.content };
  const scroll = (part, top) => $$(".log", part).forEach(l => l.scrollTop = Math.min(top, l.scrollHeight));
  // why nothing comes: class, text, and whether that matters; and until when all was so that is shown, "" while it is
  let link, until = data.now;
  const show = () => {
    const [cls, text, matters] = link || (waiting.size ? ["held", put(HELD, waiting.size)] : ["", LIVE]);
    const e = $("#live"), stale = $("#stale");
    if (e) e.className = "live " + cls;
    say($("#live span"), text);
    if (!stale) return;
    if (matters) say(stale.lastChild, text + ". " + put(BELOW, clock(until)));
    stale.hidden = !matters;
  };
  const apply = force => {
    for (const [id, part] of waiting) {
      const old = d.getElementById(id);
      if (old && !force && busy(old)) continue;
      const forms = old && old.dataset.can !== part.dataset.can;
      if (forms) old.innerHTML = part.innerHTML;
      if (forms && !force && inUse()) { old.hidden = false; continue }
      waiting.delete(id);
      if (forms) renew();
      if (!old || forms) continue;
      if (id === "rows") keepRows(old, part);
      // what the reader has opened stays open
      $$("details[open][id]", old).forEach(o => ($("#" + o.id, part) || o).open = true);
      // the end of a log stays in view if it was
      const was = $(".log", old), top = was && was.scrollHeight - was.scrollTop - was.clientHeight > 7 ? was.scrollTop : Infinity;
      old.replaceWith(part);
      scroll(part, top);
    }
    tell();
    show();
  };
  // Forms are their reader's own, so no stream has them. When other ones are due, they are read again; not while somebody
  // is at them, or has typed something.
  const inUse = () => $$("[data-acts]").some(busy) || $("main [role=alert]") || $$("main :is(input,textarea,[selected])").some(e => e.defaultSelected ? !e.selected : e.value !== e.defaultValue || e.checked !== e.defaultChecked);
  let turns = 0;
  const renew = async () => {
    const forms = "[data-acts], #can", turn = ++turns;
    const fresh = $$(forms, parse(await fetch(data.stream).then(r => r.text(), () => "")));
    if (turn < turns) return;
    if (!fresh[0] || inUse()) $("#can").hidden = false;
    else $$(forms).forEach((e, i) => e.replaceWith(fresh[i]));
  };
  // A list does not grow: its rows change in their places, and a link counts those that have come. Behind the last row
  // that stays, rows have moved up from the next page, unless there is none: a page has 50 rows.
  const keepRows = (old, part) => {
    const rows = e => new Map($$("tbody tr:has(.id)", e).map(r => [$(".id", r).getAttribute("href"), r]));
    const newer = $("#newer"), was = rows(old), now = rows(part);
    if (!newer || !was.size) return;
    let n, fresh = 0;
    for (const id of now.keys()) was.has(id) ? n = fresh : fresh++;
    if (was.size < 50) n = fresh;
    $("tbody", part).replaceChildren(...[...was].map(([id, r]) => {
      r.className = "past";
      return now.get(id) || r;
    }));
    const [a, past] = newer.children;
    a.textContent = put(newer.dataset.newer, (n ??= fresh) < 50 ? n : "50+");
    newer.hidden = (past.hidden = !$(".past", part)) & (a.hidden = !n);
  };
  // a tab that nobody sees has no frames
  const soon = () => d.hidden ? apply() : requestAnimationFrame(() => apply());
  const patch = html => {
    for (const part of parse(html).children) waiting.set(part.id, part);
    soon();
  };
  // how often in a row: by the server, which has too many streams, or by somebody in between
  let refused = 0, es;
  // not location.reload(): it would ask whether to send a form again
  const reload = () => location.replace(data.stream);
  const listen = () => {
    if (es?.readyState < 2) return;
    es = new EventSource(data.stream);
    const is = (...why) => { link = why[0] && why; show() };
    es.onopen = () => refused = 0;
    es.onerror = () => {
      until ||= now();
      // a proxy may cut a stream now and then
      if (es.readyState < 2) return is("lost", LOST, link);
      is("still", REFUSED, true);
      setTimeout(listen, Math.min(5e3 * 2 ** refused++, 3e5));
    };
    on(es, "patch", e => patch(JSON.parse(e.data)));
    on(es, "state", e => {
      const [state, at] = JSON.parse(e.data).split(" ");
      until = state === "live" ? "" : at || until || data.now;
      if (state === "away") is("lost", AWAY, true);
      else if (state === "failed") is("still", REFUSED, true);
      else if (state === "gone" || "away" in data) reload();
      else is();
      // a browser has six connections to a server without HTTP/2: a tab that nobody sees keeps none, and looks each minute
      if (d.hidden) es.close();
    });
    // events were lost: read the page again
    on(es, "reload", reload);
  };

  // ---- keys can be switched off (WCAG 2.1.4)
  let g = -900; // when "g" was pressed, if it was the last key
  const shut = at => $$("details.pick[open]").forEach(p => { if (!at || !p.contains(at)) p.open = false });
  const keys = e => {
    if (off() || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    if (e.key === "Escape") shut();
    const to = e.timeStamp - g < 900 && $(`.nav [data-key="${CSS.escape(e.key)}"]`);
    g = e.key === "g" ? e.timeStamp : -900;
    if (to) to.click();
    else if (e.key === ".") apply(true);
    else if (e.key === "/") {
      e.preventDefault();
      const go = $("#go");
      // it may be in the menu
      go.checkVisibility() || $("#nav").showPopover();
      go.focus();
    }
  };

  on(d, "DOMContentLoaded", () => {
    $$("[hidden][data-js]").forEach(e => e.hidden = false);
    // the links of the foot choose a theme, here without a new page; the button follows the next of them
    const theme = $("#theme"), themes = $$("[data-to]"), at = () => themes.findIndex(a => a.dataset.to === data.theme);
    const name = () => theme.setAttribute("aria-label", put(THEME, themes.at(at()).textContent));
    themes.forEach(a => on(a, "click", e => {
      e.preventDefault();
      fetch(a.href, { redirect: "manual" }).catch(() => {});
      data.theme = a.dataset.to;
      name();
    }));
    on(theme, "click", () => themes[(at() + 1) % themes.length].click());
    name();
    const zone = $("#zone"), mine = Intl.DateTimeFormat().resolvedOptions().timeZone;
    zone.href += zone.textContent = mine;
    zone.hidden = zone.closest("details").textContent.split(mine).length > 2;
    const sw = $("#keys");
    sw.checked = !off();
    on(sw, "change", () => { try { localStorage["dts.keys"] = sw.checked ? "" : "off" } catch {} });
    on(d, "keydown", keys);
    on(d, "click", async e => {
      const b = e.target.closest("[data-copy]");
      if (b) {
        const text = b.textContent;
        try { await navigator.clipboard.writeText(b.dataset.copy); b.textContent = COPIED } catch { b.textContent = PRESS }
        setTimeout(() => b.textContent = text, 1500);
      }
      shut(e.target);
    });
    for (const left of ["pointerout", "focusout"])
      on(d, left, () => waiting.size && soon());
    on(window, "beforeprint", () => $("#asof").textContent = clock(until || now()));
    scroll(d, Infinity);
    tell();
    setInterval(() => d.hidden || tell(), 1e3);
    if (!data.stream) return;
    listen();
    // a form may end what the page shows: a reload would lose the answer
    on(d, "submit", () => es.close());
    on(d, "visibilitychange", () => d.hidden ? es.close() : listen());
    setInterval(() => d.hidden && listen(), 6e4);
  });
})();
