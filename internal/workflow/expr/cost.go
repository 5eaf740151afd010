package expr

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Limits of expressions.
const (
	// LengthLimit bounds the text of one expression, in bytes.
	LengthLimit = 2 << 10

	// CostLimit bounds the work of one evaluation of one expression, in units of CEL: a name that is read, an operator,
	// ten characters that are copied, compared, or read of an output. It is some 20 to 100 ms. Evaluations that share a
	// Work stop as soon as their sum is beyond it.
	CostLimit = 1_000_000

	// NestingLimit bounds how deep lists, objects and macros that make lists are written in one another. To check the
	// types of n of them takes time that grows with the third power of n.
	NestingLimit = 20

	// ListLimit bounds the elements of a list that an expression makes. Lists of outputs may be longer.
	ListLimit = 10_000

	// TextLimit bounds a text that an expression makes on its way to its value, in bytes.
	TextLimit = 1 << 20

	// ValueLimit bounds what a template yields, in bytes of JSON.
	ValueLimit = 64 << 10
)

// charactersPerUnit is how much of a text costs one unit, as in CEL.
const charactersPerUnit = 10

// prices says what calls cost. CEL's own prices take the elements of nested lists for nothing, and the length of a text
// in size and conversions.
type prices struct{}

// CallCost returns the cost of a call: one unit, its texts, and for functions that walk through lists their elements. A
// call that fails costs as much: exists and all go on after an error.
func (prices) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	cost := 1 + texts(result)
	for _, arg := range args {
		cost += texts(arg)
	}
	switch function {
	case equals, differs:
		cost += weightOfComparison(args[0], args[1])
	case within:
		cost += weight(args[1])
	case "join", "min", "max":
		cost += weight(args[0])
	case each, "sum":
		cost += size(args[0])
	case operators.Add:
		if _, collects := args[0].(traits.MutableLister); !collects {
			cost += size(result)
		}
	case "split", "range":
		cost += size(result)
	}
	return &cost
}

func texts(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v) / charactersPerUnit)
	case types.Bytes:
		return uint64(len(v) / charactersPerUnit)
	default:
		return 0
	}
}

func size(v ref.Val) uint64 {
	if s, ok := v.(traits.Sizer); ok {
		switch v.(type) {
		case traits.Lister, traits.Mapper:
			return uint64(s.Size().(types.Int))
		}
	}
	return 0
}

// weightOfComparison is the work to compare two values at most, or a number beyond CostLimit.
func weightOfComparison(l, r ref.Val) uint64 {
	if size(l) == 0 || size(l) != size(r) {
		return 1
	}
	return weight(l) + weight(r)
}

// weight is the number of all values in a value, with the lengths of texts. It stops counting beyond CostLimit.
func weight(v ref.Val) uint64 {
	left := int64(CostLimit)
	weigh(v, &left)
	return uint64(CostLimit - left)
}

func weigh(v ref.Val, left *int64) {
	*left -= 1 + int64(texts(v))
	switch v := v.(type) {
	case traits.Lister:
		for it := v.Iterator(); *left >= 0 && it.HasNext() == types.True; {
			weigh(it.Next(), left)
		}
	case traits.Mapper:
		for it := v.Iterator(); *left >= 0 && it.HasNext() == types.True; {
			weigh(v.Get(it.Next()), left)
		}
	}
}
