//go:build !unix

package cli

import "os"

// widthOf returns 0: the width of a terminal is unknown here.
func widthOf(*os.File) int { return 0 }
