package codec_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/store/codec"
	"github.com/dts-sched/dts/internal/task"
	"github.com/dts-sched/dts/internal/testkit"
)

// whole is a definition with every field.
func whole() task.Definition {
	jitter := 0.0
	return task.Definition{
		Ref: task.Ref{Namespace: "shop", ID: "order-1"}, Type: "http", Queue: "critical", Payload: json.RawMessage(`{"url":"http://x/"}`),
		RunAt: noon, Delay: time.Minute, Timeout: 3 * time.Second, Retention: time.Hour, Owner: "me", Labels: map[string]string{"b": "", "a": "1"},
		Retry: task.Retry{
			MaxAttempts: 3, MaxElapsed: time.Hour, Delays: []time.Duration{time.Second, 2 * time.Second},
			Backoff: task.Backoff{Initial: time.Second, Factor: 1.5, Max: time.Hour, Jitter: &jitter},
		},
	}
}

// Nodes of other releases compare the SHA-1 of these texts, which are kept of tasks that were changed or deleted.
func TestEncodeDefinition_WritesTheCanonicalFormOfAllReleases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d    task.Definition
		want string
	}{
		{task.Definition{Type: "http", Queue: task.DefaultQueue}, `{"type":"http"}` + "\n"},
		{whole(), `{"type":"http","queue":"critical","at":1767355200000,"delay":60000,"timeout":3000,"attempts":3,"elapsed":3600000,` +
			`"backoff":{"initial":1000,"factor":1.5,"max":3600000,"jitter":0},"delays":[1000,2000],"retention":3600000,"owner":"me",` +
			`"labels":{"a":"1","b":""}}` + "\n" + `{"url":"http://x/"}`},
	} {
		got, err := codec.EncodeDefinition(c.d)
		if testkit.Must(t, err); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestSameContent_IgnoresHowAReleaseWritesIt(t *testing.T) {
	t.Parallel()
	d := whole()
	def, err := codec.EncodeDefinition(d)
	testkit.Must(t, err)
	edit := func(old, instead string) string {
		t.Helper()
		if !strings.Contains(def, old) {
			t.Fatalf("%q is not in %s", old, def)
		}
		return strings.Replace(def, old, instead, 1)
	}
	for name, stored := range map[string]string{
		"as it is":                 def,
		"another order":            edit(`"type":"http",`, `"owner":"me","type":"http",`),
		"another order of labels":  edit(`{"a":"1","b":""}`, `{"b":"","a":"1"}`),
		"blanks":                   edit(`,"delay":60000`, `, "delay": 60000`),
		"other numbers":            edit(`"factor":1.5`, `"factor":15e-1`),
		"new fields":               edit(`,"owner"`, `,"priority":0,"key":"","steps":[],"limits":{},"broadcast":false,"after":null,"owner"`),
		"a new field of a backoff": edit(`"jitter":0`, `"jitter":0,"kind":""`),
		"the payload apart":        edit(`{"url":"http://x/"}`, "@"+codec.Digest(`{"url":"http://x/"}`)),
	} {
		if !codec.SameContent(stored, d) {
			t.Errorf("%s: another content:\n%s\n%s", name, stored, def)
		}
	}
	for name, stored := range map[string]string{
		"another owner":            edit(`"owner":"me"`, `"owner":"you"`),
		"no jitter":                edit(`,"jitter":0`, ``),
		"no label":                 edit(`,"b":""`, ``),
		"the default queue":        edit(`"queue":"critical"`, `"queue":"default"`),
		"a new field":              edit(`,"owner"`, `,"priority":5,"owner"`),
		"a new field of a backoff": edit(`"jitter":0`, `"jitter":0,"kind":"linear"`),
		"another payload":          edit(`"http://x/"`, `"http://y/"`),
		"another payload apart":    edit(`{"url":"http://x/"}`, "@"+codec.Digest(`{"url":"http://y/"}`)),
		"no payload":               edit(`{"url":"http://x/"}`, ``),
		"no JSON":                  "x",
		"nothing":                  "",
	} {
		if codec.SameContent(stored, d) {
			t.Errorf("%s: the same content:\n%s\n%s", name, stored, def)
		}
	}
}

func TestSameContent_TakesWhatIsLeftOutForTheDefault(t *testing.T) {
	t.Parallel()
	d := task.Definition{Type: "http", Queue: task.DefaultQueue}
	for _, stored := range []string{
		"{\"type\":\"http\"}\n", "{\"type\":\"http\"}", "{\"queue\":\"default\",\"type\":\"http\"}\n", "{\"type\":\"http\",\"backoff\":{\"max\":0,\"jitter\":null}}\n",
	} {
		if !codec.SameContent(stored, d) {
			t.Errorf("another content: %s", stored)
		}
	}
}
