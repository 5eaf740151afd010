package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dts-sched/dts/internal/config"
)

func TestValidate_NamesTheSettingAndWhatIsValid(t *testing.T) {
	pool := func(p ...config.Pool) func(*config.Config) { return func(c *config.Config) { c.Pools = p } }
	one := config.Queues{"q": 1}
	labels := func(l config.Labels) func(*config.Config) { return func(c *config.Config) { c.Labels = l } }
	for _, c := range []struct {
		name   string
		change func(*config.Config)
		want   string
	}{
		{"no Redis", func(c *config.Config) { c.Redis = "" }, "redis: \"\" must begin with redis://"},
		{"other scheme", func(c *config.Config) { c.Redis = "http://h" }, "redis: \"xxxxx\" must begin with redis://"},
		{"no host", func(c *config.Config) { c.Redis = "redis:///0" }, "names no host"},
		{"braces in the prefix", func(c *config.Config) { c.Prefix = "{dts}" }, "prefix:"},
		{"no prefix", func(c *config.Config) { c.Prefix = "" }, "prefix:"},
		{"no role", func(c *config.Config) { c.Roles = nil }, "roles: name at least one"},
		{"unknown role", func(c *config.Config) { c.Roles = config.Roles{"leader"} }, "roles: \"leader\" must be one of scheduler, worker, api"},
		{"a role twice", func(c *config.Config) { c.Roles = config.Roles{"api", "api"} }, "roles: api is named twice"},
		{"a base path that ends with a slash", func(c *config.Config) { c.BasePath = "/dts/" }, "base-path: \"/dts/\" must be"},
		{"a base path without a slash", func(c *config.Config) { c.BasePath = "dts" }, "base-path:"},
		{"a base path that is a server", func(c *config.Config) { c.BasePath = "//evil" }, "base-path:"},
		{"a base path that goes up", func(c *config.Config) { c.BasePath = "/a/.." }, "base-path:"},
		{"no port", func(c *config.Config) { c.Listen = "localhost" }, "listen:"},
		{"impossible port", func(c *config.Config) { c.Listen = "localhost:70000" }, "listen: the port"},
		{"odd node name", func(c *config.Config) { c.NodeName = "a b" }, "node-name:"},
		{"a label without a name", labels(config.Labels{"": "x"}), `labels: the name "" must be 1 to 63 of`},
		{"a label with an odd name", labels(config.Labels{"a b": "x"}), `labels: the name "a b" must be 1 to 63 of`},
		{"a label that begins with a dash", labels(config.Labels{"-a": "x"}), `labels: the name "-a" must be`},
		{"a label with a long name", labels(config.Labels{strings.Repeat("n", 64): "x"}), `nnn" must be 1 to 63 of`},
		{"a label with an odd value", labels(config.Labels{"zone": "a,b"}), `labels: the value "a,b" of zone must be at most 63 of`},
		{"a label with a long value", labels(config.Labels{"zone": strings.Repeat("v", 64)}), `vvv" of zone must be at most 63 of`},
		{"a weight that gives no turn", labels(config.Labels{"weight": "0"}),
			`labels: the value "0" of weight must be a whole number from 1 to 1000000: how many turns`},
		{"a weight that is no number", labels(config.Labels{"weight": "2.5"}), `the value "2.5" of weight must be a whole`},
		{"a weight without a value", labels(config.Labels{"weight": ""}), `the value "" of weight must be a whole number`},
		{"a label of every node", labels(config.Labels{"role": "x"}), `labels: the name "role" is taken: a node has the labels id, name, host, version, role by itself`},
		{"too many labels", labels(many(33)), "labels: there are 33; must be at most 32"},
		{"no IP", func(c *config.Config) { c.NodeIP = "host" }, "node-ip:"},
		{"no concurrency", func(c *config.Config) { c.Concurrency = 0 }, "concurrency: 0 must be 1 to"},
		{"no queue", func(c *config.Config) { c.Queues = nil }, "queues: name at least one"},
		{"weight 0", func(c *config.Config) { c.Queues = config.Queues{"q": 0} }, "queues: the weight of q: 0 must be 1 to"},
		{"odd queue", func(c *config.Config) { c.Queues = config.Queues{"a/b": 1} }, "queues: \"a/b\" must be"},
		{"pool named default", pool(config.Pool{Name: "default", Concurrency: 1, Queues: one}), "pool default: the name is taken"},
		{"two pools of a name", pool(config.Pool{Name: "p", Concurrency: 1, Queues: one}, config.Pool{Name: "p", Concurrency: 1, Queues: one}), "pool p: the name is taken"},
		{"pool wider than the node", pool(config.Pool{Name: "p", Concurrency: 10_000, Queues: one}), "pool p: its concurrency is 10000 and must be 1 to"},
		{"pool without queues", pool(config.Pool{Name: "p", Concurrency: 1}), "pool p: name at least one queue"},
		{"pool without a name", pool(config.Pool{Concurrency: 1, Queues: one}), "pool: \"\" must be"},
		{"negative drain", func(c *config.Config) { c.DrainTimeout = -1 }, "drain-timeout:"},
		{"short lease", func(c *config.Config) { c.LeaseTTL = time.Millisecond }, "lease-ttl: 1ms must be 1s to 1m0s"},
		{"fraction of a ms", func(c *config.Config) { c.Heartbeat = time.Second + time.Microsecond }, "heartbeat: 1.000001s is not a whole number"},
		{"too many partitions", func(c *config.Config) { c.Partitions = 2000 }, "partitions: 2000 must be 0 to 1024"},
		{"nothing handed over", func(c *config.Config) { c.HandOver = 0 }, "hand-over: 0 must be 1 to"},
		{"nothing kept", func(c *config.Config) { c.RetentionMaxTasks = 0 }, "retention-max-tasks: 0 must be 1 to"},
		{"writable without monitor", func(c *config.Config) { c.Monitor, c.MonitorWritable = false, true }, "monitor-writable:"},
		{"profiles for everybody", func(c *config.Config) { c.DebugListen = ":6060" }, "debug-listen: \":6060\" must be HOST:PORT with a loopback address"},
		{"profiles for others", func(c *config.Config) { c.DebugListen = "10.0.0.7:6060" }, "debug-listen: \"10.0.0.7:6060\" must be HOST:PORT with a loopback address"},
		{"profiles without a port", func(c *config.Config) { c.DebugListen = "127.0.0.1" }, "debug-listen: \"127.0.0.1\" must be HOST:PORT"},
		{"profiles on an impossible port", func(c *config.Config) { c.DebugListen = "[::1]:x" }, "debug-listen: the port of \"[::1]:x\""},
		{"a host with a port", func(c *config.Config) { c.AllowedHosts = config.Hosts{"a.example:80"} }, "allowed-hosts: \"a.example:80\" must be the name of a host without a port"},
		{"little memory", func(c *config.Config) { c.TransferMemory = 31 << 20 }, "transfer-memory: 31MiB must be 32MiB to 1TiB"},
		{"fewer than no connections", func(c *config.Config) { c.MaxConnectionsPerAddress = -1 }, "max-connections-per-address: -1 must be 0 to 1000000"},
		{"unknown format", func(c *config.Config) { c.LogFormat = "xml" }, "log-format: \"xml\" must be one of text, json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := config.Default()
			c.change(&settings)
			err := settings.Validate()
			if err == nil {
				t.Fatal("it is accepted")
			}
			if got := err.Error(); !strings.HasPrefix(got, c.want) && !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
				t.Errorf("error is %q, want one with %q", got, c.want)
			}
		})
	}
}

// many are so many valid labels, with names and values as long as they may be.
func many(n int) config.Labels {
	l := config.Labels{}
	for i := range n {
		l[fmt.Sprintf("%s/%02d", strings.Repeat("n", 60), i)] = strings.Repeat("v", 63)
	}
	return l
}

func TestValidate_AcceptsLabelsUpToTheirLimits(t *testing.T) {
	c := config.Default()
	c.Labels = many(32)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Labels = config.Labels{"topology.kubernetes.io/zone": "eu-west-1a", "spot": "", "GPU_model": "a100/80", "0": "1.5"}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidate_NamesEveryInvalidSetting(t *testing.T) {
	c := config.Default()
	c.Listen, c.LogFormat = "x", "y"
	err := c.Validate()
	if err == nil || !strings.Contains(err.Error(), "listen:") || !strings.Contains(err.Error(), "log-format:") {
		t.Errorf("error is %v, want both listen and log-format named", err)
	}
}

func TestValidate_AcceptsEveryKindOfRedisURL(t *testing.T) {
	for _, url := range []config.URL{
		"redis://h", "redis://h:6379/0", "rediss://u:p@h:6380/1", "unix:///run/redis.sock",
		"redis+sentinel://:p@a:26379,b:26379/mymaster/0", "redis+cluster://a:6379,b:6379",
	} {
		c := config.Default()
		c.Redis = url
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestValidate_AcceptsLoopbackAddressesOfProfiles(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:6060", "127.0.0.2:0", "[::1]:6060", "localhost:6060"} {
		c := config.Default()
		c.DebugListen = address
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}
