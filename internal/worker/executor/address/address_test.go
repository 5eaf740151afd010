package address

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestRules_KnowOtherFormsOfAnAddress(t *testing.T) {
	t.Parallel()
	a := New()
	testkit.Must(t, a.Deny.Set("127.0.0.0/8,::ffff:10.0.0.0/104,::ffff:192.168.0.1"))
	for _, text := range []string{
		"0.0.0.0", "::", "::ffff:0.0.0.0", "127.1.2.3", "::ffff:127.0.0.1", "10.1.2.3", "64:ff9b::a00:1", "192.168.0.1", "fe80::a9fe:a9fe", "fe80::a9fe:a9fe%eth0",
	} {
		if a.Check(netip.MustParseAddr(text)) == nil {
			t.Errorf("%s may be called", text)
		}
	}
	for _, text := range []string{"192.168.0.2", "64:ff9b::c0a8:2", "2001:db8::1"} {
		testkit.Must(t, a.Check(netip.MustParseAddr(text)))
	}
}

// A name may have addresses that are denied beside one that cannot be reached at the moment.
func TestRules_AreFinallyDeniedOnlyIfAllAre(t *testing.T) {
	t.Parallel()
	a := New()
	testkit.Must(t, a.Deny.Set("::1"))
	_, err := a.Dial(t.Context(), "tcp", "localhost:1")
	if err == nil || executor.IsPermanent(err) {
		t.Errorf("127.0.0.1 may be called and refuses: %v", err)
	}
	testkit.Must(t, a.Deny.Set("::1,127.0.0.0/8"))
	if _, err = a.Dial(t.Context(), "tcp", "localhost:1"); !executor.IsPermanent(err) {
		t.Errorf("both are denied: %v", err)
	}
}

func TestNetworks_ReadsBlocksAndAddresses(t *testing.T) {
	t.Parallel()
	var n Networks
	testkit.Must(t, n.Set("10.1.2.3/8, 192.0.2.1,fd00::/8,"))
	if got, want := n.String(), "10.0.0.0/8,192.0.2.1/32,fd00::/8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, text := range []string{"10.0.0.0/33", "::ffff:0.0.0.0/90", "host", "10.0.0", "1.2.3.4-5"} {
		if err := n.Set(text); err == nil || !strings.Contains(err.Error(), `"`+text+`" is no address`) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
