package flags

import "github.com/dts-sched/dts/internal/api/wire"

// Labels reads the labels that a flag gives as NAME=VALUE. It returns nil if there are none.
func Labels(flag string, texts []string) (*wire.Labels, error) {
	pairs, err := Pairs(flag, "=", texts)
	if pairs == nil {
		return nil, err
	}
	labels := wire.Labels(pairs)
	return &labels, nil
}
