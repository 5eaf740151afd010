package task

import (
	"bytes"
	"encoding/json"
	"testing"
)

func FuzzCompacted_IsAsPackageJSONWritesIt(f *testing.F) {
	for _, payload := range []string{
		``, `{}`, `{"a":"b c"}`, `{ "a":1}`, `{"a":"\\"} `, `{"a":"\\\" b"}`, "[1,\n2]", "\"\t\"", `{"a" "b c"`, `\ "`,
	} {
		f.Add([]byte(payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		want := payload
		if compact := new(bytes.Buffer); json.Compact(compact, payload) == nil {
			want = compact.Bytes()
		}
		if got := compacted(payload); !bytes.Equal(got, want) {
			t.Errorf("%q became %q, want %q", payload, got, want)
		}
	})
}
