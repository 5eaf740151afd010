// Package embedded starts a Redis server inside the process, for trials and for tests with virtual time. Programs that import package dts
// alone do not link it.
package embedded

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/alicebob/miniredis/v2"

	"github.com/dts-sched/dts/internal/redisx"
)

// Server is a Redis server inside the process. It keeps its data in memory only; Close discards the data.
type Server struct {
	server *miniredis.Miniredis
	url    string
	remove func() // takes the URL back; nil for a server with a port
}

// Start starts a server at an address host:port; "" means a free port of the loopback interface.
func Start(address string) (*Server, error) {
	server := newServer()
	if err := server.StartAddr(cmp.Or(address, "127.0.0.1:0")); err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	return &Server{server: server, url: "redis://" + server.Addr() + "/0"}, nil
}

// StartHidden starts a server without a port. Clients in this process connect by its URL. Because it uses no sockets, it works inside a
// testing/synctest bubble, where it follows the virtual time.
func StartHidden() (*Server, error) {
	server := newServer()
	first, err := server.Dial() // the first Dial starts a server without a port
	if err != nil {
		return nil, fmt.Errorf("starting the embedded redis: %w", err)
	}
	s := &Server{server: server}
	s.url, s.remove = redisx.AddHidden(s.Dial)
	return s, first.Close()
}

// newServer returns a server that is not started and whose keys expire by the clock.
func newServer() *miniredis.Miniredis {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	return server
}

// URL returns the URL for redisx.Options.
func (s *Server) URL() string { return s.url }

// Dial connects within the process. Error: net.ErrClosed after Close.
func (s *Server) Dial(context.Context) (net.Conn, error) {
	s.server.Lock() // otherwise Close could miss a connection that is being opened
	defer s.server.Unlock()
	server := s.server.Server()
	if server == nil {
		return nil, net.ErrClosed
	}
	client, accepted := pipe()
	server.ServeConn(accepted)
	return client, nil
}

// Close stops the server and discards its data.
func (s *Server) Close() {
	if s.remove != nil {
		s.remove()
	}
	s.server.Close()
}
