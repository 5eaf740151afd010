package config

import (
	"fmt"
	"regexp"
	"strings"
)

const envPrefix = "DTS_"

// linkPattern matches the variables that Kubernetes sets in every container for each service of the namespace, which
// may well have a service named dts or dts-api.
var linkPattern = regexp.MustCompile(`^DTS_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// EmptyCounts is the annotation of a flag for which an empty variable of the environment counts as set to nothing. It is
// for settings that protect something: a variable that is empty by mistake must not take the protection away.
const EmptyCounts = "dts_empty_counts"

// readEnvironment reads the settings in environ, by name. A variable with an empty value counts as not set, unless its
// flag has the annotation EmptyCounts.
func (s *Settings) readEnvironment(environ []string) (map[string]origin, error) {
	found := map[string]origin{}
	for _, entry := range environ {
		variable, text, _ := strings.Cut(entry, "=")
		key, hasPrefix := strings.CutPrefix(variable, envPrefix)
		if !hasPrefix {
			continue
		}
		name, known := s.settingOf(key)
		switch {
		case text == "" && (!known || s.flags.Lookup(name).Annotations[EmptyCounts] == nil):
		case known:
			found[name] = origin{place: variable, text: text}
		case !linkPattern.MatchString(variable):
			return nil, fmt.Errorf("environment: there is no setting %s%s", variable, s.suggest(name, variableOf))
		}
	}
	return found, nil
}

// variableOf returns the name of the environment variable of a setting.
func variableOf(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
