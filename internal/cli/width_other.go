//go:build !unix

package cli

import "os"

// widthOf is how many characters fit into a line of a terminal; here, that is not known.
func widthOf(*os.File) int { return 0 }
