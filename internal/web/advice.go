package web

import (
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
		path := v.pageOf(words)
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

// pageOf is the page that does or shows what a command of dtsctl does; "" for none.
func (v *visit) pageOf(text string) template.URL {
	words, flags := strings.Fields(text)[1:], map[string]string{"-n": task.DefaultNamespace}
	for i := 0; i < len(words); {
		if !strings.HasPrefix(words[i], "-") {
			i++
			continue
		}
		n := 1
		if i+1 < len(words) && words[i] != "-A" {
			flags[words[i]], n = words[i+1], 2
		}
		words = slices.Delete(words, i, i+n)
	}
	namespace, list := flags["-n"], url.Values{}
	switch what := strings.Join(words[:min(2, len(words))], " "); {
	case what == "doctor":
		return "/doctor"
	case what == "node list":
		return "/nodes"
	case what == "task failures":
		return "/#causes"
	case what == "task list":
		for _, name := range []string{"schedule", "state"} {
			if value := flags["--"+name]; value != "" {
				list.Set(name, value)
			}
		}
		if list.Has("schedule") {
			list.Set("namespace", namespace)
		}
		return template.URL("/tasks?" + list.Encode()) //nolint:gosec // it is encoded
	case len(words) < 3:
		return ""
	case what == "node get":
		return template.URL("/tasks?" + url.Values{"node": {words[2]}}.Encode()) //nolint:gosec // it is encoded
	case what == "queue limit":
		return v.Path("queues", words[2]) + "#limit"
	case words[0] == "queue":
		return v.Path("queues", words[2])
	case words[0] == "task":
		return v.Path("tasks", namespace, words[2])
	case what == "schedule put":
		return v.Path("schedules", namespace, words[2], "edit")
	case what == "schedule resume", what == "schedule trigger":
		return v.Path("schedules", namespace, words[2], words[1])
	case what == "schedule ledger":
		return v.Path("schedules", namespace, words[2]) + "#ledger"
	case words[0] == "schedule":
		return v.Path("schedules", namespace, words[2])
	}
	return ""
}
