package config

import (
	"fmt"
	"regexp"
	"strings"
)

// mask stands for what is not shown.
const mask = "xxxxx"

// parameter is a parameter of a URL: what precedes its value, and the value.
var parameter = regexp.MustCompile(`([?&][^=&]*=)([^&]*)`)

// URL is an address that may hold a password. Printing, logging and marshalling it leave out the password and the
// user, as some write the password in its place; string(u) is the whole URL.
type URL string

// String is the URL without user and passwords.
func (u URL) String() string {
	text := parameter.ReplaceAllStringFunc(string(u), maskParameter)
	if strings.Contains(text, "@") {
		return MaskUser(text)
	}
	start := afterScheme(text)
	end := start + strings.IndexAny(text[start:]+"/", "/?")
	if !HostsPattern.MatchString(text[start:end]) { // what seems to be a port is a password whose host is missing
		return text[:start] + mask + text[end:]
	}
	return text
}

// MaskUser leaves out the user and the password of an address, with or without a scheme. The last @ ends the password,
// which may contain an unescaped @, / or ? itself.
func MaskUser(address string) string {
	at := strings.LastIndex(address, "@")
	if at < 0 {
		return address
	}
	return address[:afterScheme(address[:at])] + mask + address[at:]
}

// afterScheme is where an address goes on after its scheme, if it has one.
func afterScheme(address string) int {
	const separator = "://"
	if i := strings.Index(address, separator); i >= 0 {
		return i + len(separator)
	}
	return 0
}

// hostPort is the pattern of HOST:PORT, where both may be missing.
const hostPort = `([^\s\[\]:@,/?#]*|\[[0-9A-Fa-f:.%]+\])(:\d*)?`

// HostsPattern matches what may be between the user and the path of a URL: HOST:PORT, several separated by commas, or
// nothing.
var HostsPattern = regexp.MustCompile(`^` + hostPort + `(,` + hostPort + `)*$`)

// maskParameter masks the value of a parameter with a password. The name of one may be misspelled or escaped.
func maskParameter(text string) string {
	name, _, _ := strings.Cut(strings.ToLower(text), "=")
	if strings.Contains(name, "%") || strings.Contains(name, "pass") && !strings.HasSuffix(name, "_file") {
		return text[:len(name)+1] + mask
	}
	return text
}

// userInText matches the user and the password of URLs in a text.
var userInText = regexp.MustCompile(`://[^\s"']*@`)

// MaskURLs leaves out users and passwords of URLs that are part of a text, such as an error of a library.
func MaskURLs(text string) string { return userInText.ReplaceAllString(text, "://"+mask+"@") }

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

var redisSchemes = []string{
	"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",
}

const embeddedScheme = "embedded"
