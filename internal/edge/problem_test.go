package edge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/control"
	"github.com/dts-sched/dts/internal/schedule"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// Every code of these statuses says when to try again.
func TestCatalogue_SaysWhenToTryAgain(t *testing.T) {
	for code, e := range catalogue {
		want := e.status == http.StatusServiceUnavailable || e.status == http.StatusTooManyRequests
		if want != (e.retry > 0) {
			t.Errorf("%s: status %d, again after %d s", code, e.status, e.retry)
		}
	}
}

func TestCatalogue_HasEveryCode(t *testing.T) {
	for _, code := range declaredCodes(t) {
		if _, ok := catalogue[code]; !ok {
			t.Errorf("the catalogue lacks %s", code)
		}
	}
	for _, code := range Codes() {
		entry := catalogue[code]
		p := problemOf(&task.Error{Code: code, Message: "m", Field: "f", Err: errors.New("cause")}, "r")
		want := Problem{
			Type: "urn:dts:problem:" + string(code), Title: entry.title, Status: entry.status, Detail: "f: m", Code: code,
			Field: "f", RetryAfter: entry.retry, RequestID: "r",
		}
		if !reflect.DeepEqual(p, want) || entry.title == "" || entry.meaning == "" || !strings.HasSuffix(entry.help, ".") {
			t.Errorf("%s: %+v, want %+v", code, p, want)
		}
	}
}

func TestProblemOf_SaysThatThereWasNoAnswerInTime(t *testing.T) {
	p := problemOf(fmt.Errorf("waiting: %w", context.DeadlineExceeded), "r")
	if p.Code != "unavailable" || p.Detail != "no answer in time" {
		t.Errorf("got %+v", p)
	}
}

func TestProblemOf_NamesAllInvalidFields(t *testing.T) {
	long := strings.Repeat("x", 2000)
	p := problemOf(task.Join(task.Invalid("a", "%s", long), nil, task.Invalid("b", "is odd")), "r")
	if p.Field != "a" || len(p.Detail) <= othersLimit || len(p.Errors) != 2 ||
		len(p.Errors[0].Detail) > othersLimit+fieldLimit ||
		p.Errors[0].Field != "a" || p.Errors[1] != (Invalid{"b: is odd", "b"}) {
		t.Errorf("got %+v", p)
	}
}

// declaredCodes are the codes of errors that the packages below declare.
func declaredCodes(t *testing.T) []task.Code {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^(?:const )?\s*Code\w+ +(?:task\.)?Code += "([a-z_]+)"`)
	var codes []task.Code
	testkit.Must(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			codes = append(codes, task.Code(m[1]))
		}
		return err
	}))
	of := []task.Code{
		task.CodeInvalid, schedule.CodeBusy, control.CodeLockHeld, control.CodeQueueFull, control.CodeQueueNotFound,
		control.CodeTooManyNames,
	}
	for _, one := range of {
		if !slices.Contains(codes, one) {
			t.Fatalf("found only %v, not %s", codes, one)
		}
	}
	return codes
}
