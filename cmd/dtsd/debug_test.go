package main

import (
	"io"
	"strings"
	"testing"
)

func TestServe_RefusesToShowProfilesToOtherMachines(t *testing.T) {
	for name, args := range map[string][]string{
		"flag":        {"serve", "--debug-listen", "0.0.0.0:6060"},
		"environment": {"serve"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "environment" {
				t.Setenv("DTS_DEBUG_LISTEN", "0.0.0.0:6060")
			}
			cmd := newRootCommand()
			cmd.SetArgs(args)
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			err := cmd.ExecuteContext(t.Context())
			want := `debug-listen: "0.0.0.0:6060" must be HOST:PORT with a loopback address, as in 127.0.0.1:6060: other machines must not reach it`
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}
