package httpexec

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dts-sched/dts/internal/config"
	"github.com/dts-sched/dts/internal/worker/executor/address"
	"github.com/dts-sched/dts/internal/worker/executor/certs"
)

// settings are those of a node for http tasks.
type settings struct {
	*address.Rules
	files    certs.Files
	callback string // the URL at which services reach the API, without a slash at its end; "" if that is not known
}

func (s *settings) Declare(flags *pflag.FlagSet) {
	s.Rules.Declare(flags)
	s.files.Declare(flags)
	flags.StringVar(&s.callback, "http-callback-url", s.callback, "URL at which services that http tasks call reach the API of DTS, for their callbacks")
}

func (s *settings) Validate() error {
	s.callback = strings.TrimRight(s.callback, "/")
	return errors.Join(s.Rules.Validate(), s.files.Validate(), s.checkCallback())
}

func (s *settings) checkCallback() error {
	if s.callback == "" {
		return nil
	}
	u, err := url.Parse(s.callback)
	if err != nil || !callable(u) || u.RawQuery != "" || strings.Contains(s.callback, "%") || escape(s.callback) != s.callback {
		return fmt.Errorf("http-callback-url: %q must be a URL such as https://dts.example.com", config.MaskAddress(s.callback))
	}
	return nil
}
