package test

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/redisx"
	"github.com/dts-sched/dts/lua"
)

// scriptHash is the name by which Redis knows a script.
func scriptHash(t *testing.T, name string) string {
	t.Helper()
	sum := sha1.Sum([]byte(lua.ByName(name).Source)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

func contains(held []byte, s string) bool { return bytes.Contains(held, []byte(s)) }

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

// isTaskData says whether a key holds what leaders write, rather than leases and nodes.
func isTaskData(key string) bool {
	_, kind, inPartition := strings.Cut(key, "}:")
	aside := func(prefix string) bool { return strings.HasPrefix(kind, prefix) } // what changes as time passes
	others := []string{"lease", "minute", "hours", "status", "listed"}           // listed: leaders pack it when it suits them
	return inPartition && strings.HasPrefix(key, "dts:") && !slices.ContainsFunc(others, aside)
}

// errorCount is how often Redis has answered with an error of that kind, by its own statistics.
func errorCount(t *testing.T, db *redisx.DB, code string) int {
	t.Helper()
	info, err := db.Info(t.Context(), "errorstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`errorstat_` + code + `:count=(\d+)`).FindStringSubmatch(info)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// partitions are those that a node says it leads.
func (n *node) partitions(id string) []int {
	n.t.Helper()
	answer, err := n.ListNodesWithResponse(n.t.Context(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if answer.JSON200 == nil {
		n.t.Fatalf("nodes: %s", answer.Body)
	}
	for _, node := range answer.JSON200.Nodes {
		if node.ID == id && node.State == "alive" {
			return node.Partitions
		}
	}
	return nil
}
