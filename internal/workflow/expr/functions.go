package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/stdlib"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Names of functions that no expression can write: names puts them in the place of what is written.
const (
	equals  = "@equals"  // ==, with bounded work
	differs = "@differs" // !=
	within  = "@within"  // in

	// each is what a macro goes through: a list, or the names of an object in their order. Its elements have no type,
	// because macros in a row could nest types without end, as .map(x, [x]).map(x, [x]) does, and each level makes
	// the check of all types slower.
	each = "@each"
)

// replaced are the functions in the place of operators.
var replaced = map[string]string{operators.Equals: equals, operators.NotEquals: differs, operators.In: within}

// arithmetic are the operators that take numbers of both kinds.
var arithmetic = map[string]func(l, r ref.Val) ref.Val{
	operators.Add:      plus,
	operators.Subtract: operator("-", traits.Subtractor.Subtract),
	operators.Multiply: operator("*", traits.Multiplier.Multiply),
	operators.Divide:   operator("/", traits.Divider.Divide),
}

// operator applies an operator to two values, or says that it does not take such values.
func operator[T any](symbol string, apply func(T, ref.Val) ref.Val) func(l, r ref.Val) ref.Val {
	return func(l, r ref.Val) ref.Val {
		if left, ok := l.(T); ok && fits(l, r) {
			return apply(left, r)
		}
		return types.NewErr("%s does not take %s and %s", symbol, kind(l), kind(r))
	}
}

// fits reports whether an operator may take two values: they are of one type, or moments and spans of time.
func fits(l, r ref.Val) bool {
	return l.Type() == r.Type() || isTime(l) && isTime(r)
}

func isTime(v ref.Val) bool { return v.Type() == types.TimestampType || v.Type() == types.DurationType }

var (
	elem     = cel.TypeParamType("A")
	listOf   = cel.ListType(elem)
	mapOf    = cel.MapType(elem, cel.TypeParamType("B"))
	textList = cel.ListType(cel.StringType)
)

// functions declares what CEL's standard library does not have, or not as it is wanted here.
func functions() []cel.EnvOption {
	options := []cel.EnvOption{
		comparison(equals, isEqual),
		comparison(differs, isDifferent),
		cel.Function(within,
			cel.Overload("within_list", []*cel.Type{elem, listOf}, cel.BoolType),
			cel.Overload("within_object", []*cel.Type{elem, mapOf}, cel.BoolType),
			cel.SingletonBinaryBinding(isWithin)),
		cel.Function(each,
			cel.Overload("each_list", []*cel.Type{listOf}, cel.ListType(cel.DynType)),
			cel.Overload("each_object", []*cel.Type{mapOf}, cel.ListType(cel.DynType)),
			cel.SingletonUnaryBinding(eachOf)),
		cel.Function("split",
			cel.MemberOverload("split_text", []*cel.Type{cel.StringType, cel.StringType}, textList,
				cel.BinaryBinding(splitText))),
		cel.Function("join",
			cel.MemberOverload("join_list", []*cel.Type{listOf, cel.StringType}, cel.StringType,
				cel.BinaryBinding(joinList))),
		cel.Function("range",
			cel.Overload("range_integer", []*cel.Type{cel.IntType}, cel.ListType(cel.IntType), cel.UnaryBinding(rangeOf))),
		cel.Function("sum", cel.Overload("sum_list", []*cel.Type{listOf}, elem, cel.UnaryBinding(sum))),
		cel.Function("min", cel.Overload("min_list", []*cel.Type{listOf}, elem, cel.UnaryBinding(extreme("min", -1)))),
		cel.Function("max", cel.Overload("max_list", []*cel.Type{listOf}, elem, cel.UnaryBinding(extreme("max", 1)))),
	}
	for _, f := range stdlib.Functions() {
		if apply := arithmetic[f.Name()]; apply != nil {
			options = append(options, mixed(f, apply))
		}
	}
	return options
}

// comparison declares == or !=.
func comparison(name string, apply func(l, r ref.Val) ref.Val) cel.EnvOption {
	return cel.Function(name,
		cel.Overload(name+"_same", []*cel.Type{elem, elem}, cel.BoolType, cel.BinaryBinding(apply)))
}

// mixed declares an operator of CEL again, for numbers of both kinds as well.
func mixed(f *decls.FunctionDecl, apply func(l, r ref.Val) ref.Val) cel.EnvOption {
	opts := []cel.FunctionOpt{
		cel.Overload(f.Name()+"int_double", []*cel.Type{cel.IntType, cel.DoubleType}, cel.DoubleType),
		cel.Overload(f.Name()+"double_int", []*cel.Type{cel.DoubleType, cel.IntType}, cel.DoubleType),
		cel.SingletonBinaryBinding(func(l, r ref.Val) ref.Val { return apply(sameKind(l, r)) }),
	}
	for _, o := range f.OverloadDecls() {
		opts = append(opts, cel.Overload(o.ID(), o.ArgTypes(), o.ResultType()))
	}
	return cel.Function(f.Name(), opts...)
}

// sameKind makes two numbers doubles if one of them is a double.
func sameKind(l, r ref.Val) (ref.Val, ref.Val) {
	switch left := l.(type) {
	case types.Int:
		if _, ok := r.(types.Double); ok {
			return types.Double(left), r
		}
	case types.Double:
		if right, ok := r.(types.Int); ok {
			return l, types.Double(right)
		}
	}
	return l, r
}

// plus adds. Texts and lists cannot grow beyond their limits, and a list that it makes is one list: CEL would make a
// chain of both, in which each step through it costs more.
func plus(l, r ref.Val) ref.Val {
	switch left := l.(type) {
	case traits.MutableLister: // how macros collect their results
		if left.Size().(types.Int) >= ListLimit {
			return tooManyElements()
		}
		return left.Add(r)
	case traits.Lister:
		if right, ok := r.(traits.Lister); ok {
			return concat(left, right)
		}
	case types.String:
		if right, ok := r.(types.String); ok && len(left)+len(right) > TextLimit {
			return tooLongText()
		}
	case types.Bytes:
		if right, ok := r.(types.Bytes); ok && len(left)+len(right) > TextLimit {
			return tooLongText()
		}
	}
	return add(l, r)
}

var add = operator("+", traits.Adder.Add)

func concat(l, r traits.Lister) ref.Val {
	n := l.Size().(types.Int) + r.Size().(types.Int)
	if n > ListLimit {
		return tooManyElements()
	}
	return types.NewRefValList(types.DefaultTypeAdapter, slices.Concat(elements(l), elements(r)))
}

func tooManyElements() ref.Val {
	return types.NewErr("an expression makes no list of more than %d elements", ListLimit)
}

func tooLongText() ref.Val {
	return types.NewErr("an expression makes no text of more than %s", bytesText(TextLimit))
}

func elements(l traits.Lister) []ref.Val {
	all := make([]ref.Val, 0, l.Size().(types.Int))
	for it := l.Iterator(); it.HasNext() == types.True; {
		all = append(all, it.Next())
	}
	return all
}

func isEqual(l, r ref.Val) ref.Val {
	if weightOfComparison(l, r) > CostLimit {
		return types.NewErr("the values are too large to be compared")
	}
	return types.Equal(l, r)
}

func isDifferent(l, r ref.Val) ref.Val {
	equal := isEqual(l, r)
	if b, ok := equal.(types.Bool); ok {
		return !b
	}
	return equal
}

func isWithin(v, container ref.Val) ref.Val {
	if weight(container) > CostLimit {
		return types.NewErr("the value is too large to be searched")
	}
	if m, ok := container.(traits.Mapper); ok {
		switch v.(type) {
		case types.String, types.Int, types.Uint, types.Double, types.Bool:
			_, found := m.Find(v)
			return types.Bool(found)
		default:
			return types.False
		}
	}
	c, ok := container.(traits.Container)
	if !ok {
		return types.NewErr("in needs a list or an object, not %s", kind(container))
	}
	return c.Contains(v)
}

func eachOf(v ref.Val) ref.Val {
	switch v := v.(type) {
	case traits.Lister:
		return v
	case traits.Mapper:
		return types.NewRefValList(types.DefaultTypeAdapter, sortedKeys(v))
	default:
		return types.NewErr("only lists and objects have elements to go through, not %s", kind(v))
	}
}

func splitText(v, separator ref.Val) ref.Val {
	s, by := string(v.(types.String)), string(separator.(types.String))
	parts := strings.SplitN(s, by, ListLimit+1)
	if len(parts) > ListLimit {
		return tooManyElements()
	}
	return types.NewStringList(types.DefaultTypeAdapter, parts)
}

func joinList(v, separator ref.Val) ref.Val {
	var b strings.Builder
	for i, e := range elements(v.(traits.Lister)) {
		s, err := text(e, TextLimit)
		if err != nil {
			return types.NewErr("element %d: %v", i, err)
		}
		if i > 0 {
			b.WriteString(string(separator.(types.String)))
		}
		if b.Len()+len(s) > TextLimit {
			return tooLongText()
		}
		b.WriteString(s)
	}
	return types.String(b.String())
}

func rangeOf(v ref.Val) ref.Val {
	n := v.(types.Int)
	switch {
	case n < 0:
		return types.NewErr("range(%d): the number of elements must not be negative", n)
	case n > ListLimit:
		return tooManyElements()
	}
	all := make([]ref.Val, n)
	for i := range all {
		all[i] = types.Int(i)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, all)
}

func sum(v ref.Val) ref.Val {
	var total ref.Val = types.Int(0)
	for i, e := range elements(v.(traits.Lister)) {
		switch e.(type) {
		case types.Int, types.Double:
		case types.Uint, types.Duration:
			if i == 0 {
				total = e
				continue
			}
		default:
			return types.NewErr("sum: element %d is %s, not a number", i, kind(e))
		}
		l, r := sameKind(total, e)
		if total = add(l, r); types.IsError(total) {
			return total
		}
	}
	return total
}

// extreme returns the element that compares to all others as sign says, the first of several such.
func extreme(name string, sign types.Int) func(ref.Val) ref.Val {
	return func(v ref.Val) ref.Val {
		all := elements(v.(traits.Lister))
		if len(all) == 0 {
			return types.NewErr("%s: the list is empty", name)
		}
		found := all[0]
		for i, e := range all {
			c, ok := e.(traits.Comparer)
			if !ok {
				return types.NewErr("%s: element %d is %s, which has no order", name, i, kind(e))
			}
			order, ok := c.Compare(found).(types.Int)
			if !ok {
				return types.NewErr("%s: element %d is %s, and one before it is %s", name, i, kind(e), kind(found))
			}
			if order == sign {
				found = e
			}
		}
		return found
	}
}
