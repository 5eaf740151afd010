package redisx

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUnusable is the error of Open if waiting does not help: somebody must change the URL, or Redis.
var ErrUnusable = errors.New("redis cannot be used")

// refusals are the answers of Redis to a new client that stay the same until somebody changes something, by how they
// begin.
var refusals = []struct{ answer, reason string }{
	{"NOAUTH", "it asks for a password: write it into the URL, as in redis://user:password@host:6379/0"},
	{"WRONGPASS", "the user or the password is wrong"},
	{"ERR invalid password", "the password is wrong"},
	{"ERR AUTH <password> called without any password", "it has no password, but the URL does"},
	{"ERR Client sent AUTH, but no password is set", "it has no password, but the URL does"},
	{"NOPERM", "the user may not use the commands that DTS needs"},
	{"ERR DB index", "it has no database of that number"},
	{"ERR invalid DB index", "it has no database of that number"},
	{
		"ERR SELECT is not allowed in cluster mode",
		"it is a cluster, which has no databases: write redis+cluster://host:port",
	},
}

// passing are how answers begin that Redis gives for a while only: it is full, starts, cannot save, has lost its
// replicas or fails over.
var passing = []string{
	"OOM", "LOADING", "MISCONF", "NOREPLICAS", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", tooManyClients,
}

// tooManyClients is how Redis begins its answer to a new connection when it has as many as it may.
const tooManyClients = "max number of clients"

// noRight is how Redis begins its answer to a user who lacks a right. It is about one command, so others may still
// work.
const noRight = "NOPERM"

// isDenied reports whether err is an answer for a missing right, to a script or to a command in it.
func isDenied(err error) bool {
	return redis.HasErrorPrefix(err, noRight) ||
		isAnswer(err) && strings.Contains(err.Error(), "The user executing the script")
}

// deniedText is what Redis says of a missing right, without the name of the script that it adds.
func deniedText(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return noRight
	}
	said, _, _ := strings.Cut(reply.Error(), " script: ")
	return said
}

// To a client without a password, Redis says the second one if the command has more than ten words.
const (
	noPassword      = "NOAUTH"
	unauthenticated = "Protocol error: unauthenticated"
)

// turningAway are how answers begin by which Redis does nothing for a client.
var turningAway = []string{
	"LOADING", noPassword, unauthenticated, "WRONGPASS", noRight, "DENIED", "MASTERDOWN", "CLUSTERDOWN", "BUSY ",
	tooManyClients, string(errReplica),
}

// Passes reports whether err is an answer of Redis that it gives for a while only.
func Passes(err error) bool {
	return slices.ContainsFunc(passing, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// IsFull reports whether err is the answer of a Redis that has no memory left for a write.
func IsFull(err error) bool { return redis.HasErrorPrefix(err, "OOM") }

// RefusesChange reports whether err is an answer of a Redis that still reads, and that refuses a write or a
// transaction, as it does while it is full, cannot save, or lacks replicas.
func RefusesChange(err error) bool {
	return IsFull(err) || RefusedWrites(err) != "" || redis.IsExecAbortError(err)
}

// damages are parts of the answers of Redis where a key or a value is not what a command or a script needs.
var damages = []string{"WRONGTYPE", "not an integer", "attempt to "}

// IsDamage reports whether err is an answer of Redis for a key or a value that is not what a command or a script needs.
// Somebody has written to Redis by hand then, and asking again does not help.
func IsDamage(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && slices.ContainsFunc(damages, func(part string) bool {
		return strings.Contains(reply.Error(), part)
	})
}

// ExecPastDamage sends a pipeline of commands that read one key each, for whoever judges the error of each command, as
// doctor does. Under LeavingOut, keys of the wrong type are noted. Error: the first one that is not for damage.
func ExecPastDamage(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if !IsDamage(err) {
		return err
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !IsDamage(err) {
			return err
		}
		leaveOutKeyOf(ctx, cmd)
	}
	return nil
}

// refusing are those answers by which Redis refuses all writes, and still reads: it cannot save, its replicas are away,
// or it is one itself.
var refusing = []string{"MISCONF", "NOREPLICAS", "READONLY"}

// RefusedWrites returns what Redis says while it refuses all writes, without the name of the script that it adds; "" if
// err is no such answer.
func RefusedWrites(err error) string {
	var reply redis.Error
	says := func(prefix string) bool { return redis.HasErrorPrefix(reply, prefix) }
	if !errors.As(err, &reply) || !slices.ContainsFunc(refusing, says) {
		return ""
	}
	said, _, _ := strings.Cut(reply.Error(), " script: ")
	return said
}

// Advise adds to an error for damage what helps, unless it says so: Redis does not name the key. Any other error stays
// as it is.
func Advise(err error) error {
	const doctor = "dtsctl doctor"
	if !IsDamage(err) || strings.Contains(err.Error(), doctor) {
		return err
	}
	return fmt.Errorf("%w (a key in Redis is damaged: %s names it)", err, doctor)
}

// doubt ends the reason of WhyNot where Redis may have done what it was told.
const doubt = "; a change may have been made nevertheless"

// WithoutDoubt returns a text with a reason of WhyNot as it holds for whoever only reads: nothing can have changed.
func WithoutDoubt(text string) string { return strings.Replace(text, doubt, "", 1) }

// WhyNot says, for people, why a command failed. It may have been one that changes something.
func WhyNot(err error) string {
	if IsFull(err) {
		return "Redis is full"
	}
	if said := RefusedWrites(err); said != "" {
		return "Redis refuses writes: " + said
	}
	if isDenied(err) {
		return "Redis refuses this node a right that it needs: " + deniedText(err) + doubt
	}
	if IsDamage(err) {
		return "a key that this needs has the wrong type in Redis, or a value that is none (dtsctl doctor finds it)" + doubt
	}
	return "Redis did not answer in time, or refused" + doubt
}

// useNoTLS is what to do if a server does not speak TLS, and the URL says that it does.
const useNoTLS = "it does not speak TLS: write redis:// instead of rediss://"

// explain is why the first command of a client failed with err.
func explain(url string, err error) error {
	if reason := unusable(err); reason != "" {
		return fmt.Errorf("%w: at %s, %s: %w", ErrUnusable, Redact(url), reason, err)
	}
	if RefusedWrites(err) != "" {
		return fmt.Errorf("redis at %s refuses writes: %w", Redact(url), err)
	}
	return fmt.Errorf("redis at %s does not answer: %w", Redact(url), err)
}

// unusable says why waiting does not help; "" if it may.
func unusable(err error) string {
	var (
		reply       redis.Error
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		noTLS       tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &reply):
		for _, r := range refusals {
			if strings.HasPrefix(reply.Error(), r.answer) {
				return r.reason
			}
		}
	case errors.As(err, &certificate), errors.As(err, &authority):
		return "its certificate cannot be trusted"
	case errors.As(err, &noTLS):
		return useNoTLS
	case errors.Is(err, errPlain):
		return useNoTLS
	case errors.Is(err, errTLS):
		return "it speaks TLS: write rediss:// instead of redis://"
	case strings.HasPrefix(err.Error(), "redis: can't parse"), strings.HasPrefix(err.Error(), "redis: invalid reply"):
		return "what answers is not Redis"
	}
	return ""
}

// IsMoving reports whether err is the answer of a cluster for keys whose slot moves to another server.
func IsMoving(err error) bool { return redis.HasErrorPrefix(err, "TRYAGAIN") }
