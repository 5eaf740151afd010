package doctor

import (
	"testing"

	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

// A replica of a cluster that has taken over would refuse all writes with min-replicas-to-write.
func TestJudgeReplication_OfAClusterWarnsOfASettingThatItMustNotHave(t *testing.T) {
	t.Parallel()
	server := redistest.StartCluster(t).Primary("k").Admin()
	for setting, want := range map[string]struct {
		severity Severity
		detail   string
	}{
		"0": {Note, "a failover of a cluster may lose the newest acknowledged writes"},
		"1": {Warning, "min-replicas-to-write in a cluster: a replica that takes over has none itself, and refuses every write until the old primary is back"},
	} {
		testkit.Must(t, server.ConfigSet(t.Context(), "min-replicas-to-write", setting).Err())
		severity, detail, err := judgeReplication(t.Context(), server)
		testkit.Must(t, err)
		if severity != want.severity || detail != want.detail {
			t.Errorf("with min-replicas-to-write %s: %s, %q, want %s, %q", setting, severity, detail, want.severity, want.detail)
		}
	}
}

// It knows without the rights of an administrator, of every shape of Redis.
func TestJudgePassword_AsksAsAStrangerWould(t *testing.T) {
	t.Parallel()
	rights := redistest.User("dts", "~*", "&*", "-@all", "+@read", "+@connection")
	for name, c := range map[string]struct {
		url  string
		want Severity
	}{
		"no password":               {redistest.Start(t).URL(), Warning},
		"a password":                {redistest.Start(t, rights).URL(), OK},
		"sentinels, no password":    {redistest.StartSentinel(t).URL(), Warning},
		"a certificate of the node": {redistest.Start(t, redistest.TLS(redistest.NewCertificates(t))).URL(), Unknown},
	} {
		severity, detail, err := judgePassword(t.Context(), redistest.Open(t, c.url).UniversalClient)
		if err != nil || severity != c.want {
			t.Errorf("%s: %s, %q, %v, want %s", name, severity, detail, err, c.want)
		}
	}
}
