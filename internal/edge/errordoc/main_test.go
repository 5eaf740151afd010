package main

import (
	"os"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
)

func TestErrors_AreThoseOfTheCatalogue(t *testing.T) {
	var b strings.Builder
	testkit.Must(t, write(&b))
	committed, err := os.ReadFile("../../../docs/errors.md")
	testkit.Must(t, err)
	if string(committed) != b.String() {
		t.Error("docs/errors.md differs from the catalogue: run make generate")
	}
	if row := "| `queue_full` | 429 | "; !strings.Contains(b.String(), row) {
		t.Errorf("the document lacks %s", row)
	}
}
