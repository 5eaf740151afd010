package schedule

import "strings"

// selfPaused begins the note of a schedule that has paused itself, as ended.lua writes it.
const selfPaused = "paused by itself"

// PausedItself reports whether the schedule is paused since too many of its tasks failed in a row.
func (s Schedule) PausedItself() bool {
	return !s.PausedAt.IsZero() && strings.HasPrefix(s.PauseNote, selfPaused)
}
