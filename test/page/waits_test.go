package page

import (
	"net/http"
	"testing"
)

// refund starts a run that waits for an approval, then for a signal.
func (n *node) refund(id string) {
	n.t.Helper()
	form := fields{
		"amount": fields{"type": "integer", "required": true, "max": 100},
		"how":    fields{"type": "string", "enum": []string{"card", "cash"}, "required": true},
		"urgent": fields{"type": "boolean"}, "items": fields{"type": "list"},
		"reason": fields{"type": "string", "pattern": "[a-z ]+"},
	}
	definition := fields{"steps": []fields{
		{"id": "check", "wait": fields{"approval": fields{"by": []string{"ops"}, "form": form}, "timeout": "1h"}},
		{"id": "paid", "needs": []string{"check"}, "wait": fields{"signal": "paid"}},
	}}
	n.send(http.MethodPost, "/v1/tasks", fields{
		"id": id, "type": "workflow", "payload": fields{"definition": definition},
	})
}

// A step is approved with its form, and a signal is given. Who answers the same meanwhile loses nothing, and is told.
func stepsAreApproved(t *testing.T, n *node) {
	n.refund("refund-1")
	b := n.openTab()
	b.open("/runs/default/refund-1")
	b.await("#verdict", "Waits for an answer of ops. It fails at ")
	b.await("#ask-check", "Approve check?")
	b.await("#live", "Live")
	const field = `[name="steps.check.data.`
	b.fill(field+`amount"]`, "7", field+`reason"]`, "R2", field+`how"]`, `"cash"`)
	b.fill(`[name="steps.check.note"]`, "as agreed")
	b.click(field + `urgent"]`)
	b.click("#ask-check .btn.pri")
	b.await(`[id="w-steps.check.data.reason"]`, "does not match the pattern [a-z ]+")
	how, isUrgent := b.value(field+`how"]`), eval[bool](b, `document.querySelector('`+field+`urgent"]').checked`)
	if how != `"cash"` || !isUrgent {
		t.Errorf("what was chosen is lost: %s, %t", how, isUrgent)
	}
	other := n.openTab()
	other.open("/runs/default/refund-1")
	other.await("#live", "Live")
	other.fill(field+`items"]`, "[1]")
	b.fill(field+`reason"]`, "as agreed")
	b.click("#ask-check .btn.pri")
	b.await(`[role=status].note`, "The step was approved at ")
	b.await("#verdict", "Waits for the signal paid")
	b.await("#steps", `{"amount":7,"how":"cash","items":null,"reason":"as agreed","urgent":true}`)
	b.await("#graph", "waits · a signal")

	other.await("#verdict", "Waits for the signal paid")
	other.await("#can", "What can be done here has changed.") // what was typed there stays
	if typed := other.value(field + `items"]`); typed != "[1]" {
		t.Errorf("what was typed is lost: %q", typed)
	}
	other.fill(field+`amount"]`, "8")
	other.click("#ask-check .btn.red")
	other.await("main [role=alert]", "Not rejected. ")
	other.await("main [role=alert]", "approved by ")

	b.fill("#f-data", `{"amount": 7}`)
	b.click("#signal .btn.pri")
	b.await(`[role=status].note`, "The signal was given at ")
	b.await("#verdict", "Succeeded")
	b.await("#signals", `{"amount":7}`)
}
