package web

import (
	"cmp"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/dts-sched/dts/internal/task"
)

// advice is what to do about a reason: sentences, and commands of a shell that do the same.
type advice struct {
	Sentences []sentence
	Commands  []string
}

// sentence is a part of a text, some words of which lead to the page that does what they say.
type sentence struct {
	Before string
	Link   string // "" for none
	Path   template.URL
}

// command is a command of dtsctl at the end of a sentence, as reasons have it.
var command = regexp.MustCompile(`: (dtsctl .+?)\.(?: |$)`)

// Advice is the advice of a reason, which the API has as text: "Resume it: dtsctl queue resume mails." becomes a link
// and a command. A command that no page can replace stays where it is.
func (v *visit) Advice(text string) (a advice) {
	rest := text
	for from := 0; ; {
		at := command.FindStringSubmatchIndex(rest[from:])
		if at == nil {
			break
		}
		begin, end, words := from+at[0], from+at[1], rest[from+at[2]:from+at[3]]
		path := pageOf(words)
		if path == "" {
			from = end
			continue
		}
		if string(path) == v.path { // its buttons
			path = "#acts"
		}
		before, link := linked(rest[:begin])
		a.Sentences = append(a.Sentences, sentence{before, link, path}, sentence{Before: ". "})
		a.Commands = append(a.Commands, words)
		rest, from = rest[end:], 0
	}
	a.Sentences = append(a.Sentences, sentence{Before: rest})
	return a
}

// LinkText is the words of a link in the advice of a reason, in the reader's language if they are known.
func (v *visit) LinkText(words string) template.HTML {
	switch words {
	case "See why":
		return v.T("See why")
	case "See why they failed":
		return v.T("See why they failed")
	case "See why they wait":
		return v.T("See why they wait")
	}
	return escaped(words)
}

// linked are the words of a text, of which the last ones become a link.
func linked(text string) (before, link string) {
	at := 0
	if i := strings.LastIndex(text, ". "); i >= 0 {
		at = i + len(". ")
	}
	for _, start := range []string{", or ", "Then ", "Or "} {
		if i := strings.LastIndex(text[at:], start); i >= 0 {
			at += i + len(start)
		}
	}
	return text[:at], text[at:]
}

// pagesOfCommands are the pages that do or show what commands of dtsctl do, by what these begin with.
var pagesOfCommands = map[string]string{
	"doctor":           "/doctor",
	"limit resume":     "/limits/:name",
	"limit set":        "/limits/:name#set",
	"node get":         "/tasks?node=:name",
	"node list":        "/nodes",
	"queue capacity":   "/queues/:name#capacity",
	"queue resume":     "/queues/:name",
	"queue why":        "/queues/:name",
	"schedule ledger":  "/schedules/:namespace/:name#ledger",
	"schedule put":     "/schedules/:namespace/:name/edit",
	"schedule resume":  "/schedules/:namespace/:name/resume",
	"schedule trigger": "/schedules/:namespace/:name/trigger",
	"schedule why":     "/schedules/:namespace/:name",
	"task cancel":      "/tasks/:namespace/:name",
	"task change":      "/tasks/:namespace/:name",
	"task failures":    "/#causes",
	"task list":        "/tasks?",
	"task why":         "/tasks/:namespace/:name",
}

// pageOf is the page that does or shows what a command of dtsctl does; "" for none.
func pageOf(command string) template.URL {
	words, flags := flagsIn(strings.Fields(command)[1:])
	path, known := pagesOfCommands[strings.Join(words[:min(2, len(words))], " ")]
	namespace := cmp.Or(flags.Get("-n"), task.DefaultNamespace)
	switch {
	case !known || strings.Contains(path, ":name") && len(words) < 3:
		return ""
	case path == "/tasks?":
		list := url.Values{}
		if id := flags.Get("--schedule"); id != "" {
			list = url.Values{"namespace": {namespace}, "schedule": {id}}
		}
		if state := flags.Get("--state"); state != "" {
			list.Set("state", state)
		}
		path += list.Encode()
	case len(words) > 2:
		name := url.PathEscape(strings.Trim(words[2], "'"))
		path = strings.NewReplacer(":namespace", url.PathEscape(namespace), ":name", name).Replace(path)
	}
	return template.URL(path) //nolint:gosec // what was put in is escaped
}

// flagsIn takes the flags from the words of a command. All but -A have a value.
func flagsIn(words []string) (rest []string, flags url.Values) {
	flags = url.Values{}
	for i := 0; i < len(words); i++ {
		switch {
		case words[i] == "-A" || !strings.HasPrefix(words[i], "-"):
			rest = append(rest, strings.TrimPrefix(words[i], "-A"))
		case i+1 < len(words):
			flags.Set(words[i], words[i+1])
			i++
		}
	}
	return slices.DeleteFunc(rest, func(word string) bool { return word == "" }), flags
}
