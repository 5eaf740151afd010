package why_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/why"
)

func TestCodes_AreDocumentedInOrder(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := ""
	for _, m := range why.Codes {
		rows += fmt.Sprintf("| `%s` | %s |\n", m.Code, m.Text)
	}
	if !strings.Contains(string(page), rows) {
		t.Errorf("docs/why.md does not have these rows:\n%s", rows)
	}
}
