package task

import "errors"

// OthersLimit is how many invalid fields an error names beside the first one.
const OthersLimit = 9

// Join returns the errors of several checks of a request as one: the first one, with the others as its Others. A field
// that is named already is left out. If an error is no *Error with CodeInvalid, Join returns that one alone. nil means
// that a check found nothing.
func Join(errs ...error) error {
	var all []*Error
	for _, err := range errs {
		if err == nil {
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeInvalid {
			return err
		}
		all = append(append(all, e), e.Others...)
	}
	if len(all) == 0 {
		return nil
	}
	first := *all[0]
	first.Others = nil
	named := map[string]bool{first.Field: true}
	for _, e := range all[1:] {
		if !named[e.Field] && len(first.Others) < OthersLimit {
			first.Others = append(first.Others, &Error{Code: e.Code, Field: e.Field, Message: e.Message, Err: e.Err})
		}
		named[e.Field] = true
	}
	return &first
}

// JoinChecks runs checks, and joins their errors as Join does.
func JoinChecks(checks []func() error) error {
	errs := make([]error, len(checks))
	for i, check := range checks {
		errs[i] = check()
	}
	return Join(errs...)
}
