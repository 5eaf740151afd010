package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
)

// overlaps is a script that returns which texts and fields overlap, a sentence for each pair. What is cut counts as far
// as it is shown. What floats above the page, as the bar, is left out.
const overlaps = `(() => {
	const floats = e => e.closest(".vh, .skip, .drop, .newer, svg") ||
		/sticky|fixed/.test(getComputedStyle(e.closest("th, .top") ?? e).position);
	const texts = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; node = walk.nextNode();) {
		const e = node.parentElement;
		if (!node.data.trim() || !e.checkVisibility() || floats(e) && !e.closest(".top")) continue;
		const range = document.createRange();
		range.selectNodeContents(node);
		for (const r of range.getClientRects()) {
			let [left, top, right, bottom] = [r.left, r.top, r.right, r.bottom];
			for (let over = e; over; over = over.parentElement) {
				const style = getComputedStyle(over), o = over.getBoundingClientRect();
				if (style.overflow === "visible" || style.display === "inline") continue;
				left = Math.max(left, o.left), right = Math.min(right, o.right);
				top = Math.max(top, o.top), bottom = Math.min(bottom, o.bottom);
			}
			if (right - left > 1 && bottom - top > 1) texts.push({node, left, top, right, bottom});
		}
	}
	for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
		const r = e.getBoundingClientRect(), node = {data: "the field " + (e.id || e.name), parentElement: e};
		if (e.checkVisibility() && r.width > 1 && (!floats(e) || e.closest(".top")))
			texts.push({node, left: r.left, top: r.top, right: r.right, bottom: r.bottom});
	}
	const found = [];
	texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
		const inBar = text => text.node.parentElement.closest(".top") !== null;
		if (a.node === b.node || inBar(a) !== inBar(b)) return;
		const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
		const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
		const lower = Math.min(a.bottom - a.top, b.bottom - b.top);
		if (wide > 3 && high > lower / 3)
			found.push(a.node.data.trim().slice(0, 60) + " | " + b.node.data.trim().slice(0, 60));
	}));
	return found.slice(0, 5);
})()`

// cutTables is a script that returns the captions of tables that are wider than the box that cuts them. A box that
// scrolls cuts nothing.
const cutTables = `[...document.querySelectorAll(".box table")].filter(table => {
	const box = table.closest(".box");
	const right = box.getBoundingClientRect().right;
	return getComputedStyle(box).overflowX !== "auto" && table.getBoundingClientRect().right > right + 1;
}).map(table => table.innerText.slice(0, 60))`

// broken is a script that returns words of buttons, times and states that are cut, or go on in the next line.
const broken = `[...document.querySelectorAll(".btn, time, .st .w")].flatMap(e => {
	const found = [], walk = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
	for (let node; e.checkVisibility() && !e.closest(".cut") && (node = walk.nextNode());)
		for (const word of node.parentElement.closest(".vh") ? [] : node.data.matchAll(/\S+/g)) {
			const range = document.createRange();
			range.setStart(node, word.index);
			range.setEnd(node, word.index + word[0].length);
			const lines = [...range.getClientRects()], box = e.closest(".box");
			const cuts = box && getComputedStyle(box).overflowX !== "auto";
			if (lines.length > 1 || cuts && lines[0].right > box.getBoundingClientRect().right) found.push(word[0]);
		}
	return found;
})`

// smallTargets is a script that returns what is hard to hit with a finger. A link in a sentence may be as high as its
// line.
const smallTargets = `[...document.querySelectorAll("a[href], button, summary, input, select")].filter(e => {
	const target = e.type === "checkbox" ? e.closest("label") : e, r = target.getBoundingClientRect();
	const inText = target.closest("p, li, .note, figcaption") && getComputedStyle(target).display === "inline";
	const least = target.matches(".btn.pri, .btn.red, .menu") ? 44 : 24;
	const small = r.height < least - .5 || r.width < 12;
	return small && r.height > 0 && target.checkVisibility() && !target.closest(".skip, .vh") && !inText;
}).map(e => Math.round(e.getBoundingClientRect().height) + " pixels: " + e.outerHTML.slice(0, 120))`

// large sets the size of text that the reader has chosen, in percent.
func (b *tab) large(percent int64) {
	b.t.Helper()
	call(b, page.SetFontSizes, page.SetFontSizesParams{
		FontSizes: &page.FontSizes{Standard: 16 * percent / 100, Fixed: 13 * percent / 100},
	})
}

// expectRoom demands that no texts overlap, as wide and as large as they are shown now.
func (b *tab) expectRoom(where string) {
	b.t.Helper()
	for _, pair := range eval[[]string](b, overlaps) {
		b.t.Errorf("%s: texts overlap: %s", where, pair)
	}
}

// expectTargets demands that a finger hits what can be pressed.
func (b *tab) expectTargets(where string) {
	b.t.Helper()
	for _, small := range eval[[]string](b, smallTargets) {
		b.t.Errorf("%s: %s", where, small)
	}
}

// Text that is twice as large has room on a screen, where the width alone leaves the links in the bar.
func TestLooks_LargeTextHasRoom(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.furnish()
	b := n.openTab()
	for _, path := range []string{
		"/", "/schedules", "/schedules/default/often", "/tasks/default/failed", "/queues", "/forecast", "/doctor/run",
		"/submit",
	} {
		b.open(path)
		eval[any](b, `document.querySelectorAll(".wr .mute time").forEach(e => e.textContent = "2026-01-02 15:04")`)
		eval[any](b, `document.querySelectorAll("#ledger .st .w").forEach(e => e.textContent = "succeeded")`)
		eval[any](b, `document.documentElement.style.fontSize = "200%"`)
		for _, width := range []int64{1200, 390} {
			b.look(width, "light")
			where := fmt.Sprintf("%s, %d pixels, text twice as large", path, width)
			b.expectRoom(where)
			for _, table := range eval[[]string](b, cutTables) {
				t.Errorf("%s: a table is cut: %s", where, table)
			}
			for _, word := range eval[[]string](b, broken) {
				t.Errorf("%s: a word is cut or broken: %s", where, word)
			}
			if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > width {
				t.Errorf("%s: it is %d pixels wide", where, wide)
			}
		}
	}
}

// What an action has said is pale once the verdict below is bad.
func TestLooks_MessagePalesAboveABadVerdict(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.shell("failed", "exit 3", nil)
	n.shell("waits", "true", fields{"delay": "1h"})
	n.awaitState("failed", "failed")
	b := n.openTab()
	const note, pale = "[role=status].note", "rgba(0, 0, 0, 0)"
	ground := func() string {
		return eval[string](b, `getComputedStyle(document.querySelector("`+note+`")).backgroundColor`)
	}
	b.open("/tasks/default/waits")
	b.click(`summary.red`)
	b.click(`form[action$="/cancel"] button`)
	b.await(note, "was cancelled, or was asked to stop, at")
	if got := ground(); got == pale {
		t.Errorf("the message is pale though nothing is bad")
	}
	b.open("/tasks/default/failed")
	b.click(`form[action$="/retry"] button`)
	b.await(note, "The task was retried at ")
	b.await("#verdict", "Failed")
	if got := ground(); got != pale {
		t.Errorf("the message has the ground %s above what failed", got)
	}
}

// On paper, nobody knows when "now" was.
func TestLooks_PrintTimesThatStayTrue(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.furnish()
	b := n.openTab()
	b.open("/tasks")
	media := "print"
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media})
	eval[any](b, `dispatchEvent(new Event("beforeprint"))`)
	const shown = `[...document.querySelectorAll("#rows time")].map(t => t.innerText.trim() +
		getComputedStyle(t, "::after").content.replaceAll('"', "") + "|" + t.title)`
	times := eval[[]string](b, shown)
	for _, text := range times {
		if printed, want, _ := strings.Cut(text, "|"); printed != want || want == "" {
			t.Errorf("a time is printed as %q, want %q", printed, want)
		}
	}
	asOf := b.text(".asof")
	if len(times) == 0 || !strings.HasPrefix(asOf, "As of 20") || !strings.HasSuffix(asOf, " UTC") {
		t.Errorf("%d times, and it begins with %q", len(times), asOf)
	}
}
