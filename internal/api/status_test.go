package api

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/status"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestStatus_AnswersWithReasonsAndFigures(t *testing.T) {
	t.Parallel()
	r := startRig(t)
	var answer wire.Status
	got := r.call("GET", "/v1/status", "")
	testkit.Must(t, json.Unmarshal(got.body, &answer))
	if got.status != 200 || answer.At == nil || answer.Sentence == "" || answer.Figures.RedisMemory == nil {
		t.Errorf("status %d, %s", got.status, got.body)
	}
}

// The lists of codes are closed: the document has those of package status.
func TestStatus_DocumentHasAllCodes(t *testing.T) {
	t.Parallel()
	d, err := describe()
	testkit.Must(t, err)
	var documented, known []string
	for _, code := range d.doc.Components.Schemas["StatusReason"].Value.Properties["code"].Value.Enum {
		documented = append(documented, code.(string))
	}
	for _, m := range status.Codes {
		known = append(known, string(m.Code))
	}
	if !slices.Equal(documented, known) {
		t.Errorf("documented are %v, known %v", documented, known)
	}
}
