package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/testkit"
)

// As after SIGTERM, which ends the context.
func TestServe_StopsWithoutAnErrorWhileItWaitsForRedis(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	cmd := newRootCommand()
	cmd.SetArgs([]string{"serve", "--redis", "redis://127.0.0.1:1/0", "--listen", "127.0.0.1:0"})
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Error(err)
	}
}

// written is what a command writes, a call of Write at a time.
type written chan string

func (w written) Write(text []byte) (int, error) {
	w <- string(text)
	return len(text), nil
}

// It runs alone: a command sets what is global to its process.
func TestDev_PrintsAddressesBelowItsBasePath(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd, out, ended := newRootCommand(), make(written, 10), make(chan error, 1)
	cmd.SetArgs([]string{"dev", "--listen", "127.0.0.1:0", "--base-path", "/dts"})
	cmd.SetOut(out)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	greeting := ""
	select {
	case greeting = <-out:
	case err := <-ended:
		t.Fatal(err)
	}
	page := regexp.MustCompile(`Page +(http://\S+/dts/)\n`).FindStringSubmatch(greeting)
	server := regexp.MustCompile(`--server (http://\S+/dts) `).FindStringSubmatch(greeting)
	if page == nil || server == nil || page[1] != server[1]+"/" {
		t.Fatalf("it prints:\n%s", greeting)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page[1], nil)
	testkit.Must(t, err)
	answer, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s answers %s", page[1], answer.Status)
	}
	cancel()
	testkit.Must(t, <-ended)
}
