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

// A password that nobody needs protects nothing; a user without rights needs none.
func TestJudgePassword_KnowsWhatTheUserDefaultMay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t).Admin()
	admin := server.Conn() // whose rights stay, as it has another user
	t.Cleanup(func() { testkit.Must(t, admin.Close()) })
	testkit.Must(t, server.ACLSetUser(t.Context(), "root", "on", ">secret", "+@all", "~*", "&*").Err())
	testkit.Must(t, admin.AuthACL(t.Context(), "root", "secret").Err())
	for _, c := range []struct {
		rules []string
		want  Severity
	}{
		{[]string{"on", "nopass", "+@all"}, Warning},
		{[]string{"on", "nopass", "-@all", "+get"}, Warning},
		{[]string{"on", "resetpass", ">secret", "+@all"}, OK},
		{[]string{"on", "nopass", "-@all"}, OK},
		{[]string{"off", "nopass", "+@all"}, OK},
	} {
		testkit.Must(t, admin.ACLSetUser(t.Context(), "default", append([]string{"reset"}, c.rules...)...).Err())
		severity, detail, err := judgePassword(t.Context(), admin)
		if err != nil || severity != c.want {
			t.Errorf("%v: %s, %q, %v, want %s", c.rules, severity, detail, err, c.want)
		}
	}
}
