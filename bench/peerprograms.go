package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// peerSet is who takes part, and who is missing.
type peerSet struct {
	peers    []peer
	missing  []string    // sentences
	software [][2]string // what the peers need besides: names and versions
}

// leastNode is the first version of Node that the client of Redis takes.
const leastNode = 20

// preparePeers builds the programs of all peers that this machine can run.
func (b *bench) preparePeers(ctx context.Context) (set peerSet, err error) {
	redis := func(ctx context.Context) (peerServer, error) { return startRedis(ctx) }
	own, _, err := b.buildPeer(ctx, "dts", "")
	if err != nil {
		return set, err
	}
	asynq, asynqVersion, err := b.buildPeer(ctx, "asynq", "github.com/hibiken/asynq")
	if err != nil {
		return set, err
	}
	set.peers = []peer{
		{
			name: ownPeer, library: "DTS, its Go library", server: redis, argv: []string{own}, bulk: true,
			settings: "`NewWorker` with `Lead`",
		},
		{
			name: "asynq", library: "asynq " + asynqVersion, server: redis, argv: []string{asynq},
			settings: "looks for tasks every 20 ms (default: 1 s), and for delayed ones every second (default: 5 s)",
		},
	}
	set.join("BullMQ", fmt.Sprintf("It needs Node %d or newer with npm: https://nodejs.org, or "+
		"`apt-get install nodejs npm` where that is as new.", leastNode),
		func() ([]peer, [][2]string, error) { return b.prepareBullMQ(ctx, redis) })
	set.join("River", "It needs PostgreSQL: `apt-get install postgresql`, or initdb and postgres in the path.",
		func() ([]peer, [][2]string, error) { return b.prepareRiver(ctx) })
	return set, nil
}

// join adds a peer, or says why it is left out and what it needs.
func (s *peerSet) join(name, needs string, prepare func() ([]peer, [][2]string, error)) {
	peers, software, err := prepare()
	if err != nil {
		reason := strings.Join(strings.Fields(err.Error()), " ")
		s.missing = append(s.missing, fmt.Sprintf("%s is left out: %s. %s", name, reason, needs))
		return
	}
	s.peers, s.software = append(s.peers, peers...), append(s.software, software...)
}

// buildPeer builds a program in Go, and returns it and the version of a module in it.
func (b *bench) buildPeer(ctx context.Context, name, module string) (binary, version string, err error) {
	binary = filepath.Join(b.redis.dir, "peer-"+name)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./"+name)
	cmd.Dir = filepath.Join(b.root, "bench", "peers")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building the program of %s: %w: %s", name, err, out)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", "", err
	}
	for _, m := range info.Deps {
		if m.Path == module {
			version = m.Version
		}
	}
	return binary, version, nil
}

func (b *bench) prepareBullMQ(ctx context.Context, redis newServer) ([]peer, [][2]string, error) {
	out, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return nil, nil, err
	}
	node := strings.TrimSpace(string(out))
	if major, err := nodeMajor(node); err != nil || major < leastNode {
		return nil, nil, errors.Join(fmt.Errorf("node is %s", node), err)
	}
	// Not in the repository, so that nothing which walks through it meets the packages.
	dir := filepath.Join(b.redis.dir, "bullmq")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(b.root, "bench", "peers", "bullmq"))); err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return nil, nil, err
	}
	var packages struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &packages); err != nil {
		return nil, nil, err
	}
	install := exec.CommandContext(ctx, "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("npm ci: %w: %s", err, bytes.TrimSpace(out))
	}
	return []peer{{
		name:    "BullMQ",
		library: fmt.Sprintf("BullMQ %s with ioredis %s", packages.Dependencies["bullmq"], packages.Dependencies["ioredis"]),
		server:  redis, argv: []string{"node", filepath.Join(dir, "main.js")}, bulk: true,
		settings: "one `Worker` with `concurrency` 64 in one Node process",
	}}, [][2]string{{"Node", node}}, nil
}

// nodeMajor is the first number of a version like v20.1.0.
func nodeMajor(version string) (int, error) {
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	return strconv.Atoi(major)
}

func (b *bench) prepareRiver(ctx context.Context) ([]peer, [][2]string, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, nil, err
	}
	if _, err := postgresUser(); err != nil {
		return nil, nil, err
	}
	version, err := exec.CommandContext(ctx, filepath.Join(programs, "postgres"), "--version").Output()
	if err != nil {
		return nil, nil, err
	}
	river, riverVersion, err := b.buildPeer(ctx, "river", "github.com/riverqueue/river")
	if err != nil {
		return nil, nil, err
	}
	server := func(settings ...string) newServer {
		return func(ctx context.Context) (peerServer, error) { return startPostgres(ctx, settings...) }
	}
	peers := []peer{
		{
			name: "River", library: "River " + riverVersion, argv: []string{river}, bulk: true, server: server(),
			settings: "`MaxWorkers` 64, `FetchCooldown` 5 ms (default: 100 ms), `FetchPollInterval` 20 ms (default: 1 s), " +
				"16 connections (default: 4); many tasks in each call: `InsertManyFast`",
		},
		{
			name: "River, fsync off", library: "River " + riverVersion, argv: []string{river}, bulk: true,
			server: server("fsync=off"), settings: "the same; PostgreSQL does not wait for the disk, as Redis does not here",
		},
	}
	software := postgresVersion(string(version)) + " with " + strings.Join(postgresSettings, ", ")
	return peers, [][2]string{{"PostgreSQL", software}}, nil
}

// postgresVersion is the version in the answer to postgres --version.
func postgresVersion(answer string) string {
	_, version, found := strings.Cut(answer, "(PostgreSQL) ")
	if !found {
		return "unknown"
	}
	version, _, _ = strings.Cut(strings.TrimSpace(version), " ")
	return version
}
