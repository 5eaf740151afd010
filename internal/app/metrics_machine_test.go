package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dts-sched/dts/internal/api/wire"
	"github.com/dts-sched/dts/internal/cluster"
	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/redistest"
	"github.com/dts-sched/dts/internal/testkit"
)

func TestMachineCollector_LeavesOutWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	var last atomic.Pointer[cluster.Machine]
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(machineCollector{&last})
	expect := func(want map[string]float64) {
		t.Helper()
		got := map[string]float64{}
		families, err := registry.Gather()
		testkit.Must(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := strings.TrimPrefix(f.GetName(), "dts_node_machine_")
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = m.GetGauge().GetValue()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	expect(map[string]float64{})
	last.Store(&cluster.Machine{Load: new(0.0)})
	expect(map[string]float64{"load": 0})
	last.Store(&cluster.Machine{
		CPU: new(0.25), Load: new(1.5), Memory: &cluster.Space{Used: 1, Total: 4}, Disk: &cluster.Space{Used: 3, Total: 4},
		Network: &cluster.Traffic{Received: 7, Sent: 5},
	})
	expect(map[string]float64{
		"cpu_ratio": 0.25, "load": 1.5, "memory_used_ratio": 0.25, "disk_used_ratio": 0.75,
		"network_bytes_per_second received": 7, "network_bytes_per_second sent": 5,
	})
}

func TestApp_TellsItsNameItsLabelsAndItsMachine(t *testing.T) {
	t.Parallel()
	c := settings(redistest.Start(t).URL())
	c.NodeName, c.Labels = "web-1", config.Labels{"zone": "eu", "spot": ""}
	r := run(t, Options{Config: c})
	_, body := r.call(http.MethodGet, "/v1/nodes", "")
	var list wire.NodeList
	testkit.Must(t, json.Unmarshal([]byte(body), &list))
	if len(list.Nodes) != 1 {
		t.Fatalf("the list is %s", body)
	}
	n := list.Nodes[0]
	labels := wire.NodeLabels{"zone": "eu", "spot": ""}
	if wire.Value(n.Name) != "web-1" || n.Host != cluster.Host() || !strings.HasPrefix(n.ID, "web-1-") ||
		!cmp.Equal(n.Labels, &labels) {
		t.Errorf("the node is %s", body)
	}
	if m := n.Machine; m == nil || m.Load == nil || m.Memory == nil || m.Memory.Used == 0 {
		t.Errorf("the machine is %+v", m)
	}
	testkit.Eventually(t, "a heartbeat has the disk, which may be slow", func() bool {
		_, body := r.call(http.MethodGet, "/v1/nodes", "")
		testkit.Must(t, json.Unmarshal([]byte(body), &list))
		return list.Nodes[0].Machine.Disk != nil
	})
	_, metrics := r.call(http.MethodGet, "/metrics", "")
	if !strings.Contains(metrics, "\ndts_node_machine_memory_used_ratio 0.") {
		t.Error("the metrics lack the memory of the machine")
	}
}
