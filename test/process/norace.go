//go:build !race

package process

var buildFlags []string // programs without the race detector, as the tests
