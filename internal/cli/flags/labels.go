package flags

import "github.com/dts-sched/dts/internal/api/client"

// Labels reads the labels that a flag gives as NAME=VALUE. It returns nil if there are none.
func Labels(flag string, texts []string) (*client.Labels, error) {
	pairs, err := Pairs(flag, "=", texts)
	if pairs == nil {
		return nil, err
	}
	labels := client.Labels(pairs)
	return &labels, nil
}
