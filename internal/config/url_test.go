package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/config"
)

func TestURL_IsShownWithoutItsPassword(t *testing.T) {
	for whole, want := range map[string]string{
		"redis://h:6379/0":                             "redis://h:6379/0",
		"redis://user:secret@h:6379/0":                 "redis://xxxxx@h:6379/0",
		"redis://:secret@h":                            "redis://xxxxx@h",
		"redis://secret@h":                             "redis://xxxxx@h",
		"redis://u:sec/re?t@#t@h/0":                    "redis://xxxxx@h/0",
		"redis://u:sec%ret@h/0":                        "redis://xxxxx@h/0",
		"redis+sentinel://u:secret@a:1,b:2/mymaster/0": "redis+sentinel://xxxxx@a:1,b:2/mymaster/0",
		"user:secret@h":                                "xxxxx",
		"user:secret":                                  "xxxxx",
		"redis://:secret/0":                            "redis://xxxxx/0",
		"redis:/u:secret@h":                            "xxxxx",
		"redis+cluster://:secret@a:1,[::1]:2":          "redis+cluster://xxxxx@a:1,[::1]:2",
		"redis+cluster://a:1,[::1]:2":                  "redis+cluster://a:1,[::1]:2",
		"rediss+sentinel://a:1/m?sentinel_password=secret&ca_file=f": "rediss+sentinel://a:1/m?sentinel_password=xxxxx&ca_file=f",
		"redis+sentinel://u:p@a:1/m?db=1&sentinel_password=s@x":      "redis+sentinel://xxxxx@a:1/m?db=xxxxx&sentinel_password=xxxxx",
		"redis://h?PassWord=secret&sentinel%5Fpassword=secret":       "redis://h?xxxxx&xxxxx",
		"redis://h?password_file=/run/redis":                         "redis://h?password_file=/run/redis",
		"redis://u:secret@h/0?ca_file=/run/dtsd@1/ca&db=secret":      "redis://xxxxx@h/0?ca_file=/run/dtsd@1/ca&db=xxxxx",
		"redis://h/0?client_name=secret@h":                           "redis://h/0?client_name=xxxxx",
		"redis://u:sec?ret@h/0?db=1":                                 "redis://xxxxx@h/0?db=xxxxx",
		"redis://h/0?secret":                                         "redis://h/0?xxxxx",
		"redis://h/0?sEcret=1&foo=secret":                            "redis://h/0?xxxxx&foo=xxxxx",
		"redis://u:12/secret":                                        "redis://u:12/xxxxx",
		"redis+cluster://u:12/secret":                                "redis+cluster://u:12/xxxxx",
		"unix:///run/redis.sock?db=1":                                "unix:///run/redis.sock?db=xxxxx",
		"unix://secret/run/redis.sock":                               "unix://xxxxx",
		"secret":                                                     "xxxxx",
		"secret://h":                                                 "xxxxx",
		"http://h/secret":                                            "xxxxx",
		"u:sec@ret":                                                  "xxxxx",
		"redis+sentinel://a:1/m/secret":                              "redis+sentinel://a:1/m/xxxxx",
		"redis://:12?secret_file=1@h":                                "redis://xxxxx@h",
		"redis://h?secret_file=secret":                               "redis://h?secret_file=xxxxx",
		"unix://u:secret@/run/redis.sock":                            "unix://xxxxx@/run/redis.sock",
		"":                                                           "",
		"embedded://1":                                               "embedded://1",
	} {
		if got := config.URL(whole).String(); got != want {
			t.Errorf("%s is shown as %s, want %s", whole, got, want)
		}
	}
}

func TestMaskURLs_LeavesOutUsersAndParameters(t *testing.T) {
	for text, want := range map[string]string{
		`unknown command "redis://u:secret@h/0?a=b" for`: `unknown command "redis://xxxxx@h/0?xxxxx" for`,
		"to https://h/login?code=secret&x=secret, not":   "to https://h/login?xxxxx not",
		"why? because https://h/ is away":                "why? because https://h/ is away",
	} {
		if got := config.MaskURLs(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

func TestURL_ItsPasswordIsNeverPrinted(t *testing.T) {
	c := config.Default()
	c.Redis = "redis://user:hunter2@h:6379/0"

	var out bytes.Buffer
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		fmt.Fprintf(&out, format, c)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("settings", "config", c, "redis", c.Redis)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("settings", "config", c, "redis", c.Redis)
	if err := json.NewEncoder(&out).Encode(c); err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("dtsd", pflag.ContinueOnError)
	settings := config.Bind(fs, c)
	if err := fs.Parse([]string{"--redis", string(c.Redis)}); err != nil {
		t.Fatal(err)
	}
	out.WriteString(fs.FlagUsages())
	if _, err := settings.Load([]string{"DTS_REDSI=" + string(c.Redis)}); err == nil {
		t.Error("no error")
	} else {
		out.WriteString(err.Error())
	}
	for _, wrong := range []config.URL{"http://user:hunter2@h", "user:hunter2@h:1", "redis://user:hunter2@", "redis://user:hunter2@/0"} {
		c.Redis = wrong
		if err := c.Validate(); err == nil {
			t.Errorf("%s is accepted", wrong)
		} else {
			out.WriteString(err.Error())
		}
	}
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("the password is in:\n%s", out.String())
	}
}
