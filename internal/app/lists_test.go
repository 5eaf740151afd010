package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// A task that was accepted is on each list from then on, however it goes on while the list is read.
func TestLists_HaveEveryTaskWhileTasksRun(t *testing.T) {
	t.Parallel()
	a := run(t, Options{Config: settings(redistest.Start(t).URL())})
	const all = 400
	var accepted atomic.Int64
	submitted := make(chan struct{})
	go func() {
		defer close(submitted)
		for i := range all {
			submission := fmt.Sprintf(`{"id":"t%d","type":"noop","labels":{"app":"x"},"delay":"%dms"}`, i, i%3)
			if status, body := a.call(http.MethodPost, "/v1/tasks", submission); status != http.StatusCreated {
				t.Errorf("submitting: %d %s", status, body)
				return
			}
			accepted.Add(1)
		}
	}()
	list := func() (ids map[string]bool, whole bool) {
		ids, whole = map[string]bool{}, true
		for cursor := ""; ; {
			var page struct {
				Tasks      []struct{ ID string }
				NextCursor string `json:"next_cursor"`
				Warnings   []string
			}
			_, body := a.call(http.MethodGet, "/v1/tasks?label=app%3Dx&sort=created&order=asc&limit=500&cursor="+cursor, "")
			testkit.Must(t, json.Unmarshal([]byte(body), &page))
			for _, task := range page.Tasks {
				ids[task.ID] = true
			}
			whole = whole && len(page.Warnings) == 0 // the first leader begins the index
			if cursor = page.NextCursor; cursor == "" {
				return ids, whole
			}
		}
	}
	compared := 0
	for done := false; !done; {
		select {
		case <-submitted:
			done = true
		default:
		}
		n := int(accepted.Load())
		ids, whole := list()
		if !whole {
			continue
		}
		compared++
		for i := range n {
			if id := fmt.Sprint("t", i); !ids[id] {
				t.Errorf("the list of %d tasks lacks %s", n, id)
			}
		}
	}
	if compared < 2 {
		t.Errorf("only %d lists were whole", compared)
	}
}
