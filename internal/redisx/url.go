package redisx

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/dts-sched/dts/internal/config"
)

// Redact returns the URL with its passwords masked, for messages and logs.
func Redact(raw string) string { return config.URL(raw).String() }

// address is a URL of Options, taken apart.
type address struct {
	scheme string // of a single server: redis, rediss or unix
	shape  string // "", "sentinel" or "cluster"
	user   *url.Userinfo
	hosts  []string // one if shape is ""
	path   string   // without the leading slash
	query  url.Values
	files  tlsFiles
}

// tlsFiles are paths of PEM files, "" for none.
type tlsFiles struct{ ca, cert, key string }

var (
	errUser = errors.New("user, password or parameters are invalid; escape special characters as %XX")
	errHost = errors.New("a host is invalid; write host:port, and escape special characters of the password as %XX")
)

// parse takes a URL apart. It does not leave that to net/url, which would read a list of hosts as one host with an
// invalid port, and whose errors show parts of a password that is not escaped.
func parse(raw string) (address, error) {
	scheme, rest, _ := strings.Cut(raw, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	var a address
	a.scheme, a.shape, _ = strings.Cut(scheme, "+")
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		var err error
		if a.user, err = parseUser(authority[:i]); err != nil {
			return a, err
		}
		authority = authority[i+1:]
	}
	if a.scheme != "unix" && strings.Contains(path, "@") || a.scheme == "unix" && authority != "" {
		return a, errUser // an unescaped slash in the password
	}
	if authority == "" && a.scheme != "unix" {
		return a, errors.New("has no host; write host:port after the scheme, or host:port,host:port for several")
	}
	if !config.HostsPattern.MatchString(authority) {
		return a, errHost
	}
	a.hosts = strings.Split(authority, ",")
	var err error
	if a.path, err = url.PathUnescape(path); err != nil {
		return a, errors.New("what follows the hosts is invalid; escape special characters as %XX")
	}
	if a.query, err = parseQuery(query); err != nil {
		return a, err
	}
	a.files = tlsFiles{ca: take(a.query, "ca_file"), cert: take(a.query, "cert_file"), key: take(a.query, "key_file")}
	if a.files != (tlsFiles{}) && a.scheme != "rediss" {
		return a, errors.New("ca_file, cert_file and key_file are for TLS, with a scheme that begins with rediss")
	}
	return a, a.readPasswords()
}

func parseUser(text string) (*url.Userinfo, error) {
	name, password, hasPassword := strings.Cut(text, ":")
	name, errName := url.PathUnescape(name)
	password, errPassword := url.PathUnescape(password)
	switch {
	case errName != nil || errPassword != nil:
		return nil, errUser
	case !hasPassword:
		return url.User(name), nil
	}
	return url.UserPassword(name, password), nil
}

// parseQuery reads the parameters.
func parseQuery(text string) (url.Values, error) {
	if config.HasStrayAt(text) {
		return nil, errUser
	}
	query, err := url.ParseQuery(text)
	if err != nil {
		return nil, errors.New("the parameters after the ? are invalid; escape special characters as %XX")
	}
	return query, nil
}

// readPasswords reads the passwords that are in files.
func (a *address) readPasswords() error {
	own, sentinels := take(a.query, "password_file"), take(a.query, "sentinel_password_file")
	if sentinels != "" {
		password, err := readPassword("sentinel_password_file", sentinels)
		if err != nil {
			return err
		}
		if a.shape != "sentinel" || a.query.Has("sentinel_password") {
			return errors.New("sentinel_password_file is for sentinels, in place of sentinel_password")
		}
		a.query.Set("sentinel_password", password)
	}
	if own == "" {
		return nil
	}
	if _, twice := a.user.Password(); twice {
		return errors.New("password_file takes the place of a password in the URL: name one of them")
	}
	password, err := readPassword("password_file", own)
	a.user = url.UserPassword(a.user.Username(), password)
	return err
}

// readPassword reads a password from a file, which may end with a line break.
func readPassword(parameter, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", parameter, err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("%s: %s is empty", parameter, path)
	}
	return password, nil
}

// take removes a parameter and returns its value.
func take(query url.Values, name string) string {
	value := query.Get(name)
	query.Del(name)
	return value
}

// text is the URL as go-redis reads it: the other hosts are parameters.
func (a address) text(user *url.Userinfo, path string) string {
	for _, host := range a.hosts[1:] {
		a.query.Add("addr", host)
	}
	u := url.URL{Scheme: a.scheme, User: user, Host: a.hosts[0], Path: "/" + path, RawQuery: a.query.Encode()}
	return u.String()
}

// single returns the options of a single server.
func (a address) single() (*redis.Options, error) {
	opt, err := redis.ParseURL(a.text(a.user, a.path))
	if err != nil {
		return nil, a.plain(err)
	}
	return opt, a.files.add(opt.TLSConfig)
}

// sentinel returns the options of the primary that sentinels know. go-redis takes the user in front of the hosts for that of the
// sentinels, and the parameters username and password for that of the primary.
func (a address) sentinel() (*redis.FailoverOptions, error) {
	name, db, _ := strings.Cut(a.path, "/")
	if name == "" {
		return nil, errors.New("name the master after the hosts, as in redis+sentinel://a:26379,b:26379/mymaster")
	}
	sentinelUser := url.UserPassword(take(a.query, "sentinel_username"), take(a.query, "sentinel_password"))
	password, _ := a.user.Password()
	a.query.Set("master_name", name)
	a.query.Set("username", a.user.Username())
	a.query.Set("password", password)
	opt, err := redis.ParseFailoverURL(a.text(sentinelUser, db))
	if err != nil {
		return nil, a.plain(err)
	}
	return opt, a.files.add(opt.TLSConfig)
}

// cluster returns the options of a cluster.
func (a address) cluster() (*redis.ClusterOptions, error) {
	if a.path != "" {
		return nil, errors.New("a cluster has no databases; remove what follows the hosts")
	}
	opt, err := redis.ParseClusterURL(a.text(a.user, ""))
	if err != nil {
		return nil, a.plain(err)
	}
	return opt, a.files.add(opt.TLSConfig)
}

// complaints are the errors of go-redis about a URL, up to where they quote it.
var complaints = regexp.MustCompile(`^redis: (invalid \w+ (number|duration|boolean)|unexpected option)`)

// plain is an error of parsing without anything of the URL, which may be a part of a password, but for the names of
// parameters that have a value.
func (a address) plain(err error) error {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		return errHost
	}
	complaint := complaints.FindString(err.Error())
	if complaint == "" {
		return errors.New("what follows the hosts is invalid")
	}
	_, options, _ := strings.Cut(err.Error(), "redis: unexpected option: ")
	var names []string
	for name := range strings.SplitSeq(options, ", ") {
		if a.query.Get(name) != "" && optionName.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		complaint += ": " + strings.Join(names, ", ")
	}
	return errors.New(complaint)
}

// optionName matches what looks like the name of a parameter.
var optionName = regexp.MustCompile(`^[A-Za-z_]+$`)

// add adds the files to what go-redis made of a URL, which is nil without TLS. Each server is expected to have a certificate for its own
// name.
func (f tlsFiles) add(c *tls.Config) error {
	if c == nil {
		return nil
	}
	c.ServerName, c.MinVersion = "", tls.VersionTLS12
	if f.ca != "" {
		ca, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return fmt.Errorf("ca_file: %s has no certificate in PEM format", f.ca)
		}
	}
	if f.cert == "" && f.key == "" {
		return nil
	}
	own, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("cert_file and key_file: %w", err)
	}
	c.Certificates = []tls.Certificate{own}
	return nil
}
