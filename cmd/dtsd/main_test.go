package main

import (
	"strings"
	"testing"
)

// A URL in the wrong place must not leave its password in the log of whoever started dtsd.
func TestComplaint_ShowsNoPasswordOfMisplacedURLs(t *testing.T) {
	t.Parallel()
	const url = "redis://user:sec/r?e@t@h:6379/0"
	for _, args := range [][]string{
		{"serve", url}, {"dev", url}, {"version", url}, {"serve", "-redis=" + url}, {"serve", "--concurrency=" + url},
		{"serve", "--redis-url=" + url}, {"serve", "--listen", url}, {"serve", "--redis", "redis://user:sec/r?e@t"},
		{"serve", "--config", url},
		{"serve", "--enable-shell=" + url}, {"serve", "--enable-asynq", "--asynq-redis", "http" + url},
	} {
		root := newRootCommand()
		root.SetArgs(args)
		err := root.ExecuteContext(t.Context())
		if err == nil {
			t.Errorf("%q is accepted", args)
			continue
		}
		if text := complaint(err); strings.Contains(text, "sec") || strings.Contains(text, "user:") {
			t.Errorf("%q: %s", args, text)
		}
	}
}

func TestRoot_RefusesACommandThatItDoesNotHave(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"foo": `unknown command "foo"`, "serv": "serve", "server": `unknown command "server"`, "--listn": "--listn",
		"help foo": `unknown command "foo"`, "help serv": "serve", "help serve x": `dtsd serve has no command "x"`,
		"completion fish2": `dtsd completion has no command "fish2"; did you mean fish?`,
	} {
		root := newRootCommand()
		root.SetArgs(strings.Fields(arg))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
