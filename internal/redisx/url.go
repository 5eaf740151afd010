package redisx

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
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

// parse takes a URL apart. net/url would read a list of hosts as one host with an invalid port, so parse splits it off first.
func parse(raw string) (address, error) {
	scheme, rest, _ := strings.Cut(raw, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	var a address
	a.scheme, a.shape, _ = strings.Cut(scheme, "+")
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		u, err := url.Parse("redis://" + authority[:i] + "@host")
		if err != nil {
			return a, errors.New("user or password is invalid; escape special characters as %XX")
		}
		a.user, authority = u.User, authority[i+1:]
	}
	if authority == "" && a.scheme != "unix" {
		return a, errors.New("has no host; write host:port after the scheme, or host:port,host:port for several")
	}
	a.hosts = strings.Split(authority, ",")
	var err error
	if a.path, err = url.PathUnescape(path); err != nil {
		return a, fmt.Errorf("%q is invalid; escape special characters as %%XX", "/"+path)
	}
	if a.query, err = url.ParseQuery(query); err != nil {
		return a, errors.New("the parameters after the ? are invalid; escape special characters as %XX")
	}
	a.files = tlsFiles{ca: take(a.query, "ca_file"), cert: take(a.query, "cert_file"), key: take(a.query, "key_file")}
	if a.files != (tlsFiles{}) && a.scheme != "rediss" {
		return a, errors.New("ca_file, cert_file and key_file are for TLS, with a scheme that begins with rediss")
	}
	return a, nil
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
		return nil, plain(err)
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
		return nil, plain(err)
	}
	return opt, a.files.add(opt.TLSConfig)
}

// cluster returns the options of a cluster.
func (a address) cluster() (*redis.ClusterOptions, error) {
	if a.path != "" {
		return nil, fmt.Errorf("a cluster has no databases; remove %q", "/"+a.path)
	}
	opt, err := redis.ParseClusterURL(a.text(a.user, ""))
	if err != nil {
		return nil, plain(err)
	}
	return opt, a.files.add(opt.TLSConfig)
}

// plain is an error of parsing without the URL, which contains the password.
func plain(err error) error {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		return urlErr.Err
	}
	return err
}

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
