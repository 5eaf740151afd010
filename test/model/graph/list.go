package graph

// list is a slice that grows without moving what it has. Under the race detector, moving a slice of hundreds of
// megabytes stops every goroutine of the process for seconds.
type list[T any] struct{ blocks [][]T }

const blockSize = 1 << 12

//go:norace
func (l *list[T]) len() int32 {
	if len(l.blocks) == 0 {
		return 0
	}
	return int32((len(l.blocks)-1)*blockSize + len(l.blocks[len(l.blocks)-1]))
}

//go:norace
func (l *list[T]) add(v T) {
	if l.len()%blockSize == 0 {
		l.blocks = append(l.blocks, make([]T, 0, blockSize))
	}
	last := &l.blocks[len(l.blocks)-1]
	*last = append(*last, v)
}

// at returns the item of that index.
//
//go:norace
func (l *list[T]) at(i int32) *T { return &l.blocks[i/blockSize][i%blockSize] }
