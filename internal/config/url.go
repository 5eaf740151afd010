package config

import (
	"fmt"
	"regexp"
	"strings"
)

// passwordParameter is a parameter of a URL that holds a password.
var passwordParameter = regexp.MustCompile(`([?&][a-z_]*password=)[^&]*`)

// URL is an address that may hold a password. Printing, logging and marshalling it leave the password out; string(u) is
// the whole URL.
type URL string

// String is the URL without its passwords.
func (u URL) String() string {
	text := passwordParameter.ReplaceAllString(string(u), "${1}xxxxx")
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "", text
	} else {
		scheme += "://"
	}
	// The last @ ends the password, which may contain an unescaped @ itself.
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return text
	}
	user, _, hasPassword := strings.Cut(rest[:at], ":")
	if hasPassword {
		user += ":xxxxx"
	}
	return scheme + user + rest[at:]
}

// GoString keeps %#v from showing the password.
func (u URL) GoString() string { return fmt.Sprintf("%q", u.String()) }

// MarshalText keeps JSON and structured logs from showing the password.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Set takes any text. Validate checks it, and its errors do not contain the password.
func (u *URL) Set(text string) error {
	*u = URL(text)
	return nil
}

// Embedded reports whether the Redis is one without a port inside the process, which only tests have.
func (u URL) Embedded() bool { return strings.HasPrefix(string(u), embeddedScheme+"://") }

// Type is what --help calls the value.
func (u *URL) Type() string { return "URL" }

var redisSchemes = []string{"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}

const embeddedScheme = "embedded"
