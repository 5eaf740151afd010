package edge

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"

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

func TestCatalogue_HasEveryCodeOfTasks(t *testing.T) {
	for _, code := range codesOfPackageTask(t) {
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
		if p != want || entry.title == "" {
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

func codesOfPackageTask(t *testing.T) []task.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../task/errors.go", nil, 0)
	testkit.Must(t, err)
	var codes []task.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		testkit.Must(t, err)
		codes = append(codes, task.Code(code))
		return true
	})
	if len(codes) < 10 {
		t.Fatalf("found only %v", codes)
	}
	return codes
}
