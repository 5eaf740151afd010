//go:build unix && !linux

package shellexec

// endLeftovers does nothing: what left the group of a command cannot be found.
func (p *process) endLeftovers() {}

// askLeftovers does nothing.
func (p *process) askLeftovers() {}
