package dtstest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dts-sched/dts"
	"github.com/dts-sched/dts/dtstest"
)

// Mailer is what is to be tested: it welcomes users, and reminds those who are still there after three days.
type Mailer struct {
	Client *dts.Client
	Send   func(to, subject string) error
}

// Mail is the payload of tasks of type mail.
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// SignUp has a new user be welcomed at once, and reminded in three days.
func (m *Mailer) SignUp(ctx context.Context, user string) error {
	_, err := m.Client.SubmitMany(ctx, []dts.Submission{
		{ID: "welcome-" + user, Type: "mail", Payload: Mail{user, "Welcome"}},
		{ID: "remind-" + user, Type: "mail", Payload: Mail{user, "Are you still there?"}, Delay: 3 * 24 * time.Hour},
	})
	return err
}

// Handle sends a mail.
func (m *Mailer) Handle(_ context.Context, mail Mail) error { return m.Send(mail.To, mail.Subject) }

// testSignUp would be TestSignUp in a program of yours.
func testSignUp(t *testing.T) {
	var sent []string
	down := true // the mail server, at first
	mailer := &Mailer{Send: func(to, subject string) error {
		if down {
			return errors.New("the mail server is down")
		}
		sent = append(sent, to+": "+subject)
		return nil
	}}
	dtstest.Run(t, func(w *dts.Worker) {
		dts.Handle(w, "mail", mailer.Handle)
	}, func(t *testing.T, d *dtstest.DTS) {
		mailer.Client = d.Client
		if err := mailer.SignUp(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		d.Settle() // the first attempt fails
		down = false
		d.Advance(time.Minute) // the next one does not
		if got := d.Tasks("mail"); len(sent) != 1 || len(got) != 2 || got[0].Attempt != 2 || got[1].State != dts.StateScheduled {
			t.Errorf("after a minute: %q, tasks %+v", sent, got)
		}
		d.Advance(3 * 24 * time.Hour)
		if len(sent) != 2 || sent[1] != "ada: Are you still there?" {
			t.Errorf("after three days: %q", sent)
		}
	})
}

// A test of what happens at once, after a failure, and three days later. It takes some milliseconds.
func Example() {
	var t *testing.T // as go test gives it to TestSignUp
	testSignUp(t)
}
