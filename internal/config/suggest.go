package config

// closeEnough is how many letters may be wrong for a name to be taken as a slip of another.
const closeEnough = 3

// suggest is a half-sentence that names the setting the unknown one resembles, or "". write is how the
// place at fault writes a setting's name.
func (s *Settings) suggest(unknown string, write func(string) string) string {
	nearest := Nearest(unknown, s.names())
	if nearest == "" {
		return ""
	}
	return ", did you mean " + write(nearest) + "?"
}

// Nearest is the one of names that an unknown one may be a slip of, or "".
func Nearest(unknown string, names []string) string {
	nearest, least := "", closeEnough+1
	for _, name := range names {
		if d := distance(unknown, name); d < least && d < len(name) {
			nearest, least = name, d
		}
	}
	return nearest
}

// distance is how many letters have to be put in, left out or changed to make b of a (Levenshtein).
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
