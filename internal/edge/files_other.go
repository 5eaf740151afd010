//go:build !unix

package edge

// openFiles is how many files this process may open; 0 if that is not known.
func openFiles() int { return 0 }
