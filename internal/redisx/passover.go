package redisx

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// errPassedOver is the error of commands for a server that PassingOver passes over.
var errPassedOver = errors.New("the server does not answer, so it was not asked")

type passOverKey struct{}

// PassingOver returns a context for those who read what they can of a cluster: commands for a server that is in an
// outage fail at once, and readers leave out what it has. Away tells of these servers.
func PassingOver(ctx context.Context) context.Context {
	return context.WithValue(ctx, passOverKey{}, true)
}

// IsPassedOver reports whether err is that of a server that was passed over.
func IsPassedOver(err error) bool { return errors.Is(err, errPassedOver) }

// passesOver reports whether commands for a server of a cluster are not sent under ctx.
func (l *Link) passesOver(ctx context.Context, address string) bool {
	return address != "" && ctx.Value(passOverKey{}) != nil && l.met.Load() && !l.reaches(address)
}

// Away is a server of a cluster that is in an outage.
type Away struct {
	Address string
	Since   time.Time // by the clock of this process
	Said    string    // how it turns this node away; "" if it does not answer
}

// Away returns the servers of a cluster that are in an outage, by address. It is empty for a Redis that is one server.
func (l *Link) Away() []Away {
	l.mu.Lock()
	defer l.mu.Unlock()
	var away []Away
	for address, o := range l.outages {
		if address != "" && o.lasts() {
			away = append(away, Away{address, o.since, o.said})
		}
	}
	slices.SortFunc(away, func(a, b Away) int { return strings.Compare(a.Address, b.Address) })
	return away
}
