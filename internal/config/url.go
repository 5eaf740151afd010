package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// mask stands for what is not shown.
const mask = "xxxxx"

// URL is an address that may hold a password. Printing, logging and marshalling it leave out the password and the
// user, as some write the password in its place; string(u) is the whole URL.
type URL string

// String is the URL without user, passwords, and what may be a part of one: a text without a known scheme, the values
// of parameters, but for files, and a path that names no database.
func (u URL) String() string {
	scheme, rest, _ := strings.Cut(string(u), "://")
	switch {
	case u == "":
		return ""
	case !u.Embedded() && !slices.Contains(redisSchemes, scheme):
		return mask
	}
	address, query, has := strings.Cut(MaskAddress(rest), "?")
	if has {
		query = "?" + query
	}
	return scheme + "://" + maskPath(scheme, address) + query
}

// maskPath masks what follows the hosts, unless it is what it should be: the number of a database, behind the name of a
// primary if Redis has sentinels, or the path of a socket, which has no host.
func maskPath(scheme, address string) string {
	host, path, _ := strings.Cut(address, "/")
	switch {
	case scheme == "unix" && host != "" && !strings.HasPrefix(host, mask+"@"):
		return mask
	case scheme == "unix":
		return address
	case strings.HasSuffix(scheme, "+sentinel"):
		name, number, _ := strings.Cut(path, "/")
		host, path = host+"/"+name, number
	}
	if strings.Trim(path, "0123456789") != "" {
		return host + "/" + mask
	}
	return address
}

// MaskAddress leaves out the user and the password of an address, with or without a scheme, what seems to be a port
// and is a password whose host is missing, and the values of parameters, but for files.
func MaskAddress(text string) string {
	address, query, has := splitQuery(text)
	if has {
		query = "?" + maskQuery(query)
	}
	if strings.Contains(address, "@") {
		return maskUser(address) + query
	}
	start := afterScheme(address)
	end := start + strings.IndexAny(address[start:]+"/", "/#")
	if !HostsPattern.MatchString(address[start:end]) {
		address = address[:start] + mask + address[end:]
	}
	return address + query
}

// splitQuery separates the parameters of an address. A question mark before the last @ belongs to the password, unless
// the @ is in a parameter that may have one.
func splitQuery(text string) (address, query string, has bool) {
	address, query, has = strings.Cut(text, "?")
	if HasStrayAt(query) {
		last := strings.LastIndex(text, "@")
		address, query, has = strings.Cut(text[last:], "?")
		address = text[:last] + address
	}
	return address, query, has
}

// HasStrayAt reports whether the parameters of a URL have an @ where it ends a password with an unescaped question
// mark: anywhere but in a user, a password, the path of a file, or the name of a client.
func HasStrayAt(query string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if strings.Contains(name, "@") || strings.Contains(value, "@") && !mayHaveAt.MatchString(name) {
			return true
		}
	}
	return false
}

// The names of parameters whose values may have an @, and of those that are paths of files.
var (
	mayHaveAt = regexp.MustCompile(`(username|password)$|^client_name$|` + fileName.String())
	fileName  = regexp.MustCompile(`^(ca|cert|key|password|sentinel_password)_file$`)
)

// maskQuery masks parameters, but for the paths of files. What has not the form of a name is masked as well.
func maskQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, has := strings.Cut(pair, "=")
		switch {
		case !has || strings.Trim(name, parameterLetters) != "":
			pairs[i] = mask
		case !fileName.MatchString(name):
			pairs[i] = name + "=" + mask
		}
	}
	return strings.Join(pairs, "&")
}

// parameterLetters are those of the names of parameters.
const parameterLetters = "abcdefghijklmnopqrstuvwxyz_"

// maskUser leaves out the user and the password of an address. The last @ ends the password, which may contain an
// unescaped @, / or ? itself.
func maskUser(address string) string {
	at := strings.LastIndex(address, "@")
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

// In a text: the user and the password of URLs, and their parameters.
var (
	userInText  = regexp.MustCompile(`://[^\s"']*@`)
	queryInText = regexp.MustCompile(`(://[^\s"'?]*\?)[^\s"']+`)
)

// MaskURLs leaves out users, passwords and parameters of URLs that are part of a text, such as an error of a library.
func MaskURLs(text string) string {
	return queryInText.ReplaceAllString(userInText.ReplaceAllString(text, "://"+mask+"@"), "${1}"+mask)
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

var redisSchemes = []string{
	"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",
}

const embeddedScheme = "embedded"
