package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/dts-sched/dts/internal/cli"
	"github.com/dts-sched/dts/internal/cli/command"
	"github.com/dts-sched/dts/internal/cli/printer"
	"github.com/dts-sched/dts/internal/cli/server"
	"github.com/dts-sched/dts/internal/testkit"
)

const (
	alertsFolder = "../deploy/prometheus"
	alertsFile   = "alerts.yaml"
	runbooksFile = "../docs/runbooks.md"
	runbooksURL  = "https://github.com/dts-sched/dts/blob/main/docs/runbooks.md#"
)

// rule is one of alerts.yaml: an alert, or a series that is recorded for one.
type rule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alertRules are the rules of alerts.yaml.
func alertRules(t *testing.T) (rules []rule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(alertsFolder, alertsFile))
	testkit.Must(t, err)
	var file struct {
		Groups []struct{ Rules []rule }
	}
	testkit.Must(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) < 12 {
		t.Fatalf("only %d rules were found", len(rules))
	}
	return rules
}

// promtool runs a command of promtool in a folder, which must succeed.
func promtool(t *testing.T, folder string, arguments ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		program, err = filepath.Abs("../.bin/promtool")
		testkit.Must(t, err)
	}
	run := exec.CommandContext(t.Context(), program, arguments...)
	run.Dir = folder
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v (scripts/ensure-test-tools installs it)\n%s", strings.Join(arguments, " "), err, out)
	}
}

func TestAlerts_PassTheirUnitTests(t *testing.T) {
	t.Parallel()
	promtool(t, alertsFolder, "check", "rules", alertsFile)
	promtool(t, alertsFolder, "test", "rules", "alerts.test.yaml")
	cases, err := os.ReadFile(filepath.Join(alertsFolder, "alerts.test.yaml"))
	testkit.Must(t, err)
	for _, r := range alertRules(t) {
		if r.Alert != "" && !strings.Contains(string(cases), "name: "+r.Alert+"\n") {
			t.Errorf("%s has no unit test", r.Alert)
		}
	}
}

// runbookHeading begins the runbook of an alert.
var runbookHeading = regexp.MustCompile(`(?m)^## (\w+)$`)

func TestAlerts_SayWhatToDo(t *testing.T) {
	t.Parallel()
	runbooks, err := os.ReadFile(runbooksFile)
	testkit.Must(t, err)
	var written, alerts []string
	for _, m := range runbookHeading.FindAllStringSubmatch(string(runbooks), -1) {
		written = append(written, m[1])
	}
	for _, r := range alertRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || !strings.Contains(r.Annotations["description"], "`dtsctl ") {
			t.Errorf("%s does not say which command to run: %q", r.Alert, r.Annotations)
		}
		if want := runbooksURL + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s has the runbook %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		checkCommands(t, r.Alert, r.Annotations["description"])
	}
	if !slices.Equal(written, alerts) {
		t.Errorf("the runbooks are of %v, the alerts are %v", written, alerts)
	}
	checkCommands(t, runbooksFile, string(runbooks))
}

var (
	quotedCommand = regexp.MustCompile("`dtsctl ([^`]+)`")
	quotedFlag    = regexp.MustCompile(`^--([a-z-]+)`)
)

// checkCommands expects that each command of dtsctl in a text exists, and each of its flags.
func checkCommands(t *testing.T, where, text string) {
	t.Helper()
	p := printer.New(printer.Options{})
	for _, m := range quotedCommand.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[1])
		found, rest, err := cli.NewRootCommand(command.NewFactory(nil, p, &server.Config{})).Find(words)
		if err != nil || !found.Runnable() || unknownVerb(found, rest) {
			t.Errorf("%s: there is no command dtsctl %s", where, m[1])
			continue
		}
		for _, word := range words {
			flag := quotedFlag.FindStringSubmatch(word)
			if flag != nil && found.Flags().Lookup(flag[1]) == nil && found.InheritedFlags().Lookup(flag[1]) == nil {
				t.Errorf("%s: dtsctl %s: there is no flag --%s", where, m[1], flag[1])
			}
		}
	}
}

// unknownVerb reports whether a command with subcommands was followed by a word that is none of them.
func unknownVerb(c *cobra.Command, rest []string) bool {
	return c.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-")
}

var (
	exprMetric  = regexp.MustCompile(`\b(dts_[a-z0-9_]+|dts:[a-z0-9_:]+)(?:\{([^}]*)\})?`)
	exprMatcher = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	exprBy      = regexp.MustCompile(`\bby \(([a-z_, ]+)\)`)
)

// checkNames expects that each metric of an expression is among series, with a value of each label that it asks for,
// and that labels by which it groups exist. Those of Prometheus itself, and le of histograms, are known.
func checkNames(t *testing.T, r rule, series []string) {
	t.Helper()
	labels := ""
	for _, m := range exprMetric.FindAllStringSubmatch(r.Expr, -1) {
		if strings.HasPrefix(m[1], "dts:") {
			continue // promtool knows what is recorded
		}
		of := slices.DeleteFunc(slices.Clone(series), func(s string) bool { return !strings.HasPrefix(s, m[1]+"{") })
		if len(of) == 0 {
			t.Errorf("%s%s: no node has exported %s", r.Alert, r.Record, m[1])
			continue
		}
		labels += strings.Join(of, "\n")
		for _, wanted := range exprMatcher.FindAllStringSubmatch(m[2], -1) {
			value := wanted[3]
			if wanted[2] == "=" || wanted[2] == "!=" {
				value = regexp.QuoteMeta(value)
			}
			is := regexp.MustCompile(fmt.Sprintf(`[{,]%s="(?:%s)"`, wanted[1], value))
			if !slices.ContainsFunc(of, is.MatchString) {
				t.Errorf("%s%s: %s never has %s", r.Alert, r.Record, m[1], wanted[0])
			}
		}
	}
	for _, m := range exprBy.FindAllStringSubmatch(r.Expr, -1) {
		for _, label := range strings.Split(m[1], ", ") {
			if !strings.Contains(labels, label+`="`) {
				t.Errorf("%s%s groups by %s, which no metric of it has", r.Alert, r.Record, label)
			}
		}
	}
}
