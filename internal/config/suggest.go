package config

import "strings"

// closeEnough is how many letters may differ at most for a name to count as a misspelling of another; no more than
// half of them.
const closeEnough = 3

// suggest is ", did you mean X?" with the setting that the unknown one resembles, or "". write turns the name of a
// setting into the form that the place at fault uses.
func (s *Settings) suggest(unknown string, write func(string) string) string {
	nearest := Nearest(unknown, s.names())
	if nearest == "" {
		return ""
	}
	return ", did you mean " + write(nearest) + "?"
}

// DidYouMean is "; did you mean X?" with the name that an unknown one resembles, whatever its case, or "".
func DidYouMean(unknown string, names []string) string {
	if nearest := Nearest(strings.ToLower(unknown), names); nearest != "" {
		return "; did you mean " + nearest + "?"
	}
	return ""
}

// Nearest is the one of names that the unknown name most resembles, or "" if none is close.
func Nearest(unknown string, names []string) string {
	nearest, least := "", closeEnough+1
	for _, name := range names {
		if d := distance(unknown, name); d < least && 2*d <= len(name)+1 {
			nearest, least = name, d
		}
	}
	return nearest
}

// distance is the Levenshtein distance: how many letters must be inserted, deleted or changed to make b from a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
