package redisx

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/dts-sched/dts/internal/clock"
)

const (
	// tlsPatience is how long a server has to answer before it is asked whether it speaks TLS: one that does not waits for
	// more of what a client sends that does.
	tlsPatience = 500 * time.Millisecond
	probeTime   = time.Second // for such a question
)

// The server and the URL disagree about TLS.
var (
	errPlain = errors.New("it answers without TLS")
	errTLS   = errors.New("it answers by TLS")
)

// Meet waits for the first answer of Redis, as Open does, with the same errors.
func (db *DB) Meet(ctx context.Context) error {
	if err := db.greet(ctx); err != nil {
		return explain(db.url, err)
	}
	return nil
}

// greet sends the first command of a client. Error: that of the command; errPlain or errTLS.
func (db *DB) greet(ctx context.Context) error {
	a, err := parse(db.url)
	if err != nil || a.scheme == "unix" || db.dialed { // there is no address to ask
		return db.Ping(ctx).Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- db.Ping(ctx).Err() }()
	patience := time.NewTimer(tlsPatience)
	defer patience.Stop()
	select {
	case err := <-answered:
		if isAnswer(err) {
			return err
		}
		answered <- err
	case <-patience.C:
	}
	if mistaken := a.mistakesTLS(ctx); mistaken != nil {
		cancel()
		if err := <-answered; isAnswer(err) { // after all
			return err
		}
		return mistaken
	}
	return <-answered
}

// mistakesTLS returns errPlain or errTLS if a server says so.
func (a address) mistakesTLS(ctx context.Context) error {
	mistaken, speaks := errTLS, speaksTLS
	if a.scheme == "rediss" {
		mistaken, speaks = errPlain, speaksPlain
	}
	if slices.ContainsFunc(a.hosts, func(host string) bool { return speaks(ctx, host) }) {
		return mistaken
	}
	return nil
}

// speaksPlain reports whether a server answers as Redis does, without TLS. It sends no password.
func speaksPlain(ctx context.Context, host string) bool {
	dialer := net.Dialer{Timeout: probeTime}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if conn.SetDeadline(clock.Now().Add(probeTime)) != nil {
		return false
	}
	answer := make([]byte, 1)
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	_, err = conn.Read(answer)
	return err == nil && (answer[0] == '+' || answer[0] == '-')
}

// speaksTLS reports whether a server answers by TLS. It sends nothing.
func speaksTLS(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	//nolint:gosec // it is only asked whether it speaks TLS
	anybody := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	dialer := tls.Dialer{Config: anybody}
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err == nil {
		_ = conn.Close()
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" // as it wants a certificate of the client
}
