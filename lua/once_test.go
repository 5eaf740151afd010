package lua_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What becomes of a submission follows from its mode and from what the tasks of its key do. Times are counted from now.
func TestDecide_FollowsTheModeAndTheTasksOfTheKey(t *testing.T) {
	const horizon = 315360000000 // ten years
	b := newBench(t)
	for _, c := range []struct {
		mode, front, behind, known string // of decide, as Lua
		want                       string
	}{
		{mode: "mode='singleton',due=now+7", want: "created new 7"},
		{mode: "mode='singleton'", front: "wait", want: "existing front"},
		{mode: "mode='singleton'", front: "stay", want: "existing front"},
		{mode: "mode='singleton'", front: "run", behind: "true", want: "existing front"},
		{mode: "mode='singleton'", behind: "true", want: "existing behind"},

		{mode: "mode='debounce',wait=5,max=20", want: "created new 5"},
		{mode: "mode='debounce',wait=5,max=20", front: "wait", known: "first=now-3", want: "replaced front 5"},
		{mode: "mode='debounce',wait=5,max=20", front: "wait", known: "first=now-17", want: "replaced front 3"},
		{mode: "mode='debounce',wait=5,max=20", front: "wait", known: "first=now-27", want: "replaced front -7"},
		{mode: "mode='debounce',wait=5,max=20", front: "wait", known: "first=0", want: "replaced front 5"},
		{mode: "mode='debounce',wait=5,max=0", front: "wait", known: "first=now-900", want: "replaced front 5"},
		{mode: "mode='debounce',wait=5,max=20", front: "run", want: "created new 5"},
		{mode: "mode='debounce',wait=5,max=20", front: "stay", want: "created new 5"},
		{mode: "mode='debounce',wait=5,max=20", front: "run", behind: "true", want: "replaced behind"},

		{mode: "mode='throttle',drop=true", want: "created new 0"},
		{mode: "mode='throttle',drop=true", front: "run", known: "upcoming=now", want: "created new 0"},
		{mode: "mode='throttle',drop=true", known: "upcoming=now+1", want: "skipped front"},
		{mode: "mode='throttle',drop=false", known: "upcoming=now+9", want: "delayed new 9"},
		{mode: "mode='throttle',drop=false", known: fmt.Sprintf("upcoming=now+%d", horizon+1), want: "skipped front"},

		{mode: "mode='latest'", want: "created new 0 false"},
		{mode: "mode='latest'", front: "wait", want: "replaced front false"},
		{mode: "mode='latest'", front: "stay", want: fmt.Sprintf("delayed after %d false", horizon)},
		{mode: "mode='latest'", front: "run", want: fmt.Sprintf("delayed after %d false", horizon)},
		{mode: "mode='latest'", front: "run", behind: "true", want: "replaced behind false"},

		{mode: "mode='cancel_running'", want: "created new 0 false"},
		{mode: "mode='cancel_running'", front: "wait", want: "replaced front false"},
		{mode: "mode='cancel_running'", front: "stay", want: "created new 0 true"},
		{mode: "mode='cancel_running'", front: "run", want: fmt.Sprintf("delayed after %d true", horizon)},
		{mode: "mode='cancel_running'", front: "run", behind: "true", want: "replaced behind true"},
		{mode: "mode='cancel_running'", front: "stay", behind: "true", want: "replaced behind true"},
	} {
		front := "nil"
		if c.front != "" {
			front = "'" + c.front + "'"
		}
		behind := c.behind
		if behind == "" {
			behind = "false"
		}
		got := b.run("decide, number", fmt.Sprintf(`
local known = { first = 0, upcoming = 0 }
for name, value in pairs({ %s }) do known[name] = value end
local outcome, place, due, stops = decide({ %s }, %s, %s, known)
local words = { outcome, place }
if due then words[#words + 1] = int(due - now) end
if stops ~= nil then words[#words + 1] = tostring(stops) end
return { table.concat(words, ' ') }`, c.known, c.mode, front, behind))
		if diff := cmp.Diff([]any{c.want}, got); diff != "" {
			t.Errorf("%s, front %s, behind %s, %s (-want +got):\n%s", c.mode, front, behind, c.known, diff)
		}
	}
}

// A record of a key is read as it was written, and goes when it says nothing. It remembers eight submissions.
func TestReadKey_ReadsWhatIsWritten(t *testing.T) {
	b := newBench(t)
	got := b.run("once, clock, number", `
local known = read_key('default:a')
known.front, known.first = 'x', now
for i = 1, 9 do note_seen(known, 'n' .. i) end
write_key('default:a', known)
local read = read_key('default:a')
local reply = { read.front, tostring(read.behind), int(read.first - now), int(read.upcoming) }
for i = 1, 9 do reply[#reply + 1] = tostring(was_seen(read, 'n' .. i)) end
read.front = nil
write_key('default:a', read)
reply[#reply + 1] = redis.call('EXISTS', once_key)
return reply`)
	seen := []any{"false", "true", "true", "true", "true", "true", "true", "true", "true"}
	want := append(append([]any{"x", "nil", "0", "0"}, seen...), int64(0))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
