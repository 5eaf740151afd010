package task

import (
	"errors"
	"fmt"
	"testing"
)

func TestJoin_NamesEachFieldOnce(t *testing.T) {
	a, b, c := Invalid("a", "is odd"), Invalid("b", "is odd"), Invalid("c", "is odd")
	broken := errors.New("broken")
	for want, errs := range map[string][]error{
		"":         {},
		"nothing":  {nil, nil},
		"a":        {nil, a, nil},
		"a b":      {a, nil, b},
		"a b c":    {Join(a, b), Join(b, c), a},
		"a c":      {fmt.Errorf("wrapped: %w", a), c},
		"broken":   {a, broken, b},
		"conflict": {a, Errorf(CodeTaskConflict, "conflict")},
	} {
		err := Join(errs...)
		got := ""
		switch e, ok := err.(*Error); { //nolint:errorlint // it is what Join returned
		case err == nil && len(errs) > 0:
			got = "nothing"
		case err == nil:
		case !ok || e.Code != CodeInvalid:
			got = err.Error()
		default:
			got = e.Field
			for _, other := range e.Others {
				got += " " + other.Field
			}
		}
		if got != want {
			t.Errorf("%v: %q, want %q", errs, got, want)
		}
	}
	if a.Others != nil {
		t.Errorf("it changed the error that it got: %+v", a)
	}
}

func TestJoin_HasALimit(t *testing.T) {
	var errs []error
	for i := range 50 {
		errs = append(errs, Invalid(fmt.Sprint("f", i), "is odd"))
	}
	var e *Error
	if !errors.As(Join(errs...), &e) || len(e.Others) != OthersLimit {
		t.Errorf("got %+v", e)
	}
}
