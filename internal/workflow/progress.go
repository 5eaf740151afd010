package workflow

// Progress is how far a run is.
type Progress struct {
	Phase  Phase
	Paused bool
	Steps  int           // all of them
	States map[State]int // how many steps have each
}

// DecodeProgress reads of the text of a run how far that is, without its definition.
func DecodeProgress(text string) (Progress, error) {
	r, err := DecodeUnknown(text)
	return r.Progress(), err
}

// Progress returns how far the run is.
func (r Run) Progress() Progress {
	p := Progress{Phase: r.Phase, Paused: r.Paused, Steps: len(r.Steps), States: map[State]int{}}
	for _, s := range r.Steps {
		p.States[s.State]++
	}
	return p
}

// Ended returns how many steps have a verdict.
func (p Progress) Ended() int {
	return p.Steps - p.States[Blocked] - p.States[Waiting] - p.States[Active]
}
