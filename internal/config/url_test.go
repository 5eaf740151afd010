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
		"redis://user:secret@h:6379/0":                 "redis://user:xxxxx@h:6379/0",
		"redis://:secret@h":                            "redis://:xxxxx@h",
		"redis://user@h":                               "redis://user@h",
		"redis://u:sec/re@t@h/0":                       "redis://u:xxxxx@h/0",
		"redis+sentinel://u:secret@a:1,b:2/mymaster/0": "redis+sentinel://u:xxxxx@a:1,b:2/mymaster/0",
		"user:secret@h":                                "user:xxxxx@h",
		"redis://u:a:secret@h":                         "redis://u:xxxxx@h",
		"redis+cluster://:secret@a:1,b:2":              "redis+cluster://:xxxxx@a:1,b:2",
		"rediss+sentinel://a:1/m?sentinel_password=secret&ca_file=f": "rediss+sentinel://a:1/m?sentinel_password=xxxxx&ca_file=f",
		"redis+sentinel://u:p@a:1/m?db=1&sentinel_password=s@x":      "redis+sentinel://u:xxxxx@a:1/m?db=1&sentinel_password=xxxxx",
		"rediss://default:%73ecret@h:6380/0?protocol=3":              "rediss://default:xxxxx@h:6380/0?protocol=3",
	} {
		if got := config.URL(whole).String(); got != want {
			t.Errorf("%s is shown as %s, want %s", whole, got, want)
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
