package httpexec

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dts-sched/dts/internal/testkit"
	"github.com/dts-sched/dts/internal/worker/executor/executortest"
)

// written are URLs behind the host as people write them, and what is sent.
var written = map[string]string{
	"/healthz?note=hello world":    "/healthz?note=hello%20world",
	"/?note=日本":                    "/?note=%E6%97%A5%E6%9C%AC",
	"/日本/a b":                      "/%E6%97%A5%E6%9C%AC/a%20b",
	"/a%2Fb c?d=%20 e%E6":          "/a%2Fb%20c?d=%20%20e%E6",
	`/"<>?"<>`:                     "/%22%3C%3E?%22%3C%3E",
	"/a{b}|c^d`e\\f?a{b}|c^d`e\\f": "/a%7Bb%7D%7Cc%5Ed%60e%5Cf?a%7Bb%7D%7Cc%5Ed%60e%5Cf",
	"/?a[]=1&b='c'&d=100%&e=//f":   "/?a[]=1&b='c'&d=100%&e=//f",
	"/a?b#c d":                     "/a?b",
	"/100%/50%2F%zz%4?100%":        "/100%25/50%2F%25zz%254?100%",
	"? victim x":                   "/?%20victim%20x",
	"":                             "/",
}

// sent returns the request line that a server gets, which no server of HTTP has interpreted.
func sent(t *testing.T, h *Executor, method, behind string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = listener.Close() }()
	lines := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		line, _ := bufio.NewReader(conn).ReadString('\n')
		lines <- strings.TrimSpace(line)
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	}()
	_, err = execute(t, h, object{"url": "http://" + listener.Addr().String() + behind, "method": method})
	testkit.Must(t, err)
	return testkit.Receive(t, lines, "the request line")
}

func TestExecutor_EscapesWhatAURLMustNotHave(t *testing.T) {
	t.Parallel()
	h := newExecutor(t)
	for behind, want := range written {
		if got := sent(t, h, "GET", behind); got != "GET "+want+" HTTP/1.1" {
			t.Errorf("%s is sent as %q, want %q", behind, got, want)
		}
	}
	for _, method := range methods {
		if got := sent(t, h, strings.ToLower(method), "? a"); got != method+" /?%20a HTTP/1.1" {
			t.Errorf("%s is sent as %q", method, got)
		}
	}
}

func TestExecutor_EscapesWhereAnAnswerSendsIt(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"/end?name=two words": "/end?name=two%20words", "/a%2Fb c": "/a%2Fb%20c", "?name=日本": "/?name=%E6%97%A5%E6%9C%AC",
		"end <x>": "/end%20%3Cx%3E", "/\xe9": "/%E9", "/a#b c": "/a", "/100% done": "/100%25%20done",
	} {
		seen := make(chan string, 2)
		first := true
		at := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				w.Header()["Location"] = []string{location}
				w.WriteHeader(http.StatusFound)
				return
			}
			seen <- r.RequestURI
		})
		if _, err := execute(t, newExecutor(t), object{"url": at, "method": "GET"}); err != nil {
			t.Errorf("%s: %v", location, err)
		} else if got := <-seen; got != want {
			t.Errorf("%s leads to %s, want %s", location, got, want)
		}
	}
}

func TestAccept_EscapesTheURLOfTheStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ location, status string }{
		"of the answer":  {"/end?name=two words", ""},
		"of the payload": {"", "/end?name=two words"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startService(t, c.location, answer(200, "done"))
			accept := object{"poll": "100ms"}
			if c.status != "" {
				accept["status_url"] = s.url + c.status
			}
			_, err := execute(t, newExecutor(t), object{"url": s.url, "accept": accept})
			testkit.Must(t, err)
			if got := (<-s.seen).RequestURI; got != "/end?name=two%20words" {
				t.Errorf("the status was read at %s", got)
			}
		})
	}
}

func TestSameOrigin_ComparesSchemeHostAndPort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"http://a/b", "http://A:80/c?d", true}, {"https://a", "https://a:443", true},
		{"http://[::1]:80", "http://[::1]", true}, {"http://a", "https://a", false}, {"http://a:443", "https://a", false},
		{"http://a", "http://b.a", false}, {"http://a:1", "http://a:2", false},
		{"http://127.0.0.1:1", "http://localhost:1", false},
	} {
		a, err := url.Parse(c.a)
		testkit.Must(t, err)
		b, err := url.Parse(c.b)
		testkit.Must(t, err)
		if sameOrigin(a, b) != c.same || sameOrigin(b, a) != c.same {
			t.Errorf("%s and %s: same is %v", c.a, c.b, !c.same)
		}
	}
}

// secretive is a call with a secret in each place that has one.
func secretive(t *testing.T, url, method string) string {
	t.Helper()
	return executortest.JSON(t, object{
		"url": url + "/x?token=secret", "method": method, "accept": object{}, "headers": object{
			"X-Api-Key": "secret", "Authorization": "Bearer secret", "Cookie": "secret", "Accept": "text/plain",
			"Content-Type": "text/secret", "X-Idempotency-Key": "secret",
		},
	})
}

// redirecting answers with a redirect to a URL.
func redirecting(t *testing.T, status int, to string) (url string) {
	t.Helper()
	return serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	})
}

func TestRedirect_TakesNoSecretsToAnotherOrigin(t *testing.T) {
	t.Parallel()
	for method, status := range map[string]int{"GET": 302, "POST": 307, "DELETE": 308, "HEAD": 301} {
		target, requests := serve(t)
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(target, "http://"))
		for _, to := range []string{target + "/another-port", "http://localhost:" + port + "/another-host"} {
			r := executortest.NewRecorder(secretive(t, redirecting(t, status, to), method))
			r.Checkpoint = []byte(`"secret"`)
			_, err := newExecutor(t).Execute(t.Context(), r.Attempt)
			testkit.Must(t, err)
			got := <-requests
			if got.Method != method || got.Header.Get("Dts-Task-Id") != "job-1" ||
				got.Header.Get("Idempotency-Key") != "acme:job-1" || got.Header.Get("Accept") != "text/plain" {
				t.Errorf("%s: the other origin got %s %v", method, got.Method, got.Header)
			}
			for name, values := range got.Header {
				if text := strings.Join(values, " "); strings.Contains(text, "secret") || name == "Dts-Token" || name == "Referer" {
					t.Errorf("%s: the other origin got %s: %s", method, name, text)
				}
			}
		}
	}
}

// The other origin has said what is called on the way back.
func TestRedirect_TakesNoSecretsBackFromAnotherOrigin(t *testing.T) {
	t.Parallel()
	target := make(chan http.Header, 1)
	var elsewhere string
	at := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			target <- r.Header
			return
		}
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	})
	elsewhere = redirecting(t, http.StatusTemporaryRedirect, at+"/back")
	_, err := newExecutor(t).Execute(t.Context(), executortest.NewRecorder(secretive(t, at, "POST")).Attempt)
	testkit.Must(t, err)
	if got := <-target; got.Get("X-Api-Key") != "" || got.Get("Dts-Token") != "" {
		t.Errorf("it got %v", got)
	}
}

func TestRedirect_KeepsHeadersWithinItsOrigin(t *testing.T) {
	t.Parallel()
	target := make(chan seen, 1)
	at := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x" {
			http.Redirect(w, r, "/y", http.StatusTemporaryRedirect)
			return
		}
		body, _ := io.ReadAll(r.Body)
		target <- seen{r, string(body)}
	})
	payload := object{
		"url": at + "/x?token=secret", "body": "data", "accept": object{}, "headers": object{"X-Api-Key": "K"},
	}
	_, err := execute(t, newExecutor(t), payload)
	testkit.Must(t, err)
	r := <-target
	h := r.Header
	if h.Get("X-Api-Key") != "K" || h.Get("Dts-Token") == "" || r.body != "data" || h.Get("Referer") != "" {
		t.Errorf("it got %v, %q", r.Header, r.body)
	}
	payload["headers"] = object{"Referer": "http://mine"}
	_, err = execute(t, newExecutor(t), payload)
	testkit.Must(t, err)
	if r := <-target; r.Header.Get("Referer") != "http://mine" {
		t.Errorf("the payload's Referer is %q", r.Header.Get("Referer"))
	}
}

func TestRedirect_TakesNoBodyToAnotherOrigin(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		target, requests := serve(t)
		payload := object{"url": redirecting(t, status, target), "body": object{"password": "secret"}}
		_, err := execute(t, newExecutor(t), payload)
		if err == nil || !strings.Contains(err.Error(), " to "+target+", not followed, as the body is for the first") {
			t.Errorf("HTTP %d: %v", status, err)
		}
		if len(requests) > 0 {
			t.Errorf("HTTP %d: the other origin was called", status)
		}
	}
}

// A status that another origin names does not get the headers of the payload, wherever it is.
func TestAccept_TrustsNoStatusThatAnotherOriginNames(t *testing.T) {
	t.Parallel()
	asked := make(chan http.Header, 1)
	var elsewhere string
	at := serveFunc(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status" {
			asked <- r.Header
			return
		}
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	})
	elsewhere = serveFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", at+"/status")
		w.WriteHeader(http.StatusAccepted)
	})
	_, err := execute(t, newExecutor(t), object{"url": at, "accept": quick, "headers": object{"X-Api-Key": "K"}})
	testkit.Must(t, err)
	if got := <-asked; got.Get("X-Api-Key") != "" {
		t.Errorf("it got %v", got)
	}
}

func TestRedirect_IsNamedIfWhatFollowsFails(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"ftp://u:secret@x/path?key=secret": `after a redirect to ftp://xxxxx@x/path?xxxxx: unsupported protocol scheme "ftp"`,
		"//127.0.0.1:1/path":               "after a redirect to http://127.0.0.1:1/path: dial tcp 127.0.0.1:1: ",
		"https://127.0.0.1:1/":             "after a redirect to https://127.0.0.1:1/: dial tcp 127.0.0.1:1: ",
	} {
		_, err := execute(t, newExecutor(t), object{"url": redirecting(t, http.StatusFound, to), "method": "GET"})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", to, err, want)
		}
	}
	_, err := execute(t, newExecutor(t), object{"url": "http://127.0.0.1:1/?a=b", "method": "GET"})
	if err == nil || strings.Contains(err.Error(), "redirect") {
		t.Errorf("without a redirect: %v", err)
	}
}
