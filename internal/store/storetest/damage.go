package storetest

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/lua/contract"
)

// parameter is a parameter of the pattern of a kind of key.
var parameter = regexp.MustCompile(`<(\w+)>`)

// Kinds are the kinds of keys whose type doctor knows. Those that another program names are left out.
func Kinds() []contract.Kind {
	return slices.DeleteFunc(slices.Clone(contract.Keys), func(k contract.Kind) bool {
		return k.Type == contract.Channel || k.Pattern == "" || k.Name == "aside" || strings.Contains(k.Pattern, "{<")
	})
}

// OfTasks and OfSchedules are the kinds of keys that belong to one task or to one schedule.
var (
	OfTasks     = []string{"attempts", "log", "old_task"}
	OfSchedules = []string{"schedule", "history", "ledger", "live", "waiting"}
)

// Parameters stand for the parameters of all kinds of keys but <ref>. A kind with another one needs a value here.
var Parameters = map[string]string{
	"queue": "full", "namespace": "default", "state": "failed", "fence": "9:nobody", "worker": "w",
	"id": "default:queued:1", "group": "g", "day": "2026-01-02", "limit": "all", "minute": "1767366240000",
}

// KeyOf returns a key of a kind: in a partition, or of asynq's queue default. ref stands for <ref>.
func KeyOf(t testing.TB, kind contract.Kind, p int, ref string) string {
	t.Helper()
	values := maps.Clone(Parameters)
	values["ref"] = ref
	pattern := strings.NewReplacer("{p}", "{"+strconv.Itoa(p)+"}", "{q}", "{default}").Replace(kind.Pattern)
	return parameter.ReplaceAllStringFunc(pattern, func(found string) string {
		value, known := values[strings.Trim(found, "<>")]
		if !known {
			t.Fatalf("the kind %s has a parameter %s, which storetest.Parameters lacks", kind.Name, found)
		}
		return value
	})
}

// Spoil gives a key another type than that of its kind, in one moment: nodes may write the key again at any time.
func Spoil(t testing.TB, db *redisx.DB, kind contract.Kind, key string) {
	t.Helper()
	pipe := db.TxPipeline()
	pipe.Del(t.Context(), key)
	if kind.Type == contract.String {
		pipe.RPush(t.Context(), key, "garbage")
	} else {
		pipe.Set(t.Context(), key, "garbage", 0)
	}
	_, err := pipe.Exec(t.Context())
	testkit.Must(t, err)
}
