package flags

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/testkit"
)

// optionals is one optional flag of each kind.
type optionals struct {
	text     *string
	number   *int
	truth    *bool
	duration *time.Duration
}

func (o *optionals) parse(t *testing.T, args ...string) {
	t.Helper()
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	String(set, &o.text, "text", "")
	Int(set, &o.number, "number", "")
	Bool(set, &o.truth, "truth", "")
	Duration(set, &o.duration, "duration", "")
	testkit.Must(t, set.Parse(args))
}

func TestOptional_IsNilUntilItIsGiven(t *testing.T) {
	var o optionals
	if o.parse(t); o != (optionals{}) {
		t.Errorf("without flags: %+v", o)
	}
}

func TestOptional_DistinguishesZeroFromNil(t *testing.T) {
	var o optionals
	o.parse(t, "--text=", "--number=0", "--truth=false", "--duration=0")
	if o.text == nil || o.number == nil || o.truth == nil || o.duration == nil {
		t.Fatalf("a flag that was given is nil: %+v", o)
	}
	if *o.text != "" || *o.number != 0 || *o.truth || *o.duration != 0 {
		t.Errorf("got %q, %d, %t and %s", *o.text, *o.number, *o.truth, *o.duration)
	}
}

func TestOptional_ReadsItsValue(t *testing.T) {
	var o optionals
	o.parse(t, "--text", "a", "--number", "0x10", "--truth", "--duration", "90s")
	if *o.text != "a" || *o.number != 16 || !*o.truth || *o.duration != 90*time.Second {
		t.Errorf("got %q, %d, %t and %s", *o.text, *o.number, *o.truth, *o.duration)
	}
}

func TestOptional_ExplainsAnInvalidValue(t *testing.T) {
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	var number *int
	Int(set, &number, "number", "")
	err := set.Parse([]string{"--number", "x"})
	const want = `invalid argument "x" for "--number" flag: strconv.ParseInt: parsing "x": invalid syntax`
	if err == nil || err.Error() != want || number != nil {
		t.Errorf("got %v, %v", err, number)
	}
}
