package redistest

import "github.com/dts-sched/dts/internal/testkit"

// NoFailover keeps a server of a cluster that is silent from being replaced, and the others from refusing everything meanwhile.
func NoFailover() Option {
	return With("--cluster-replica-no-failover", "yes", "--cluster-require-full-coverage", "no")
}

// WhileSilent has the server answer nothing while goesOn runs, beside which waits runs, which needs an answer of it. It is an error of the test if waits
// ends before goesOn does.
func (s *Server) WhileSilent(waits, goesOn func()) {
	s.t.Helper()
	s.Pause()
	s.t.Cleanup(s.Continue)
	began, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); close(began); waits() }()
	<-began
	goesOn()
	select {
	case <-ended:
		s.t.Error("the silent server has answered, or its silence was waited for")
	default:
	}
	s.Continue()
	_ = testkit.Receive(s.t, ended, "the end of the silence")
}
