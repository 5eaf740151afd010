package expr

import (
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
)

// environment is what all expressions have in common. It has no names but a few variables, one for each type, which all
// stand for the same object of values: steps.a.output becomes @any["steps.a.output"], and params.limit becomes
// @integer["params.limit"]. CEL checks the types of these, and namer the names.
//
// An environment with the names of a scope would have to be made for each step, as each has other ancestors. To extend
// one costs as much as to compile an expression.
var environment = sync.OnceValue(newEnvironment)

func newEnvironment() *cel.Env {
	own := env.NewLibrarySubset()
	for operator := range arithmetic {
		own.AddExcludedFunctions(env.NewFunction(operator))
	}
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(own)),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(LengthLimit),
	}
	for typ, t := range celTypes {
		options = append(options, cel.Variable(variable(typ), cel.MapType(cel.StringType, t)))
	}
	e, err := cel.NewCustomEnv(append(options, functions()...)...)
	if err != nil {
		panic(err) // no input has a part in it
	}
	return e
}

// celTypes are the types of CEL for those of params. A param that is not given is null.
var celTypes = map[Type]*cel.Type{
	String:  cel.NullableType(cel.StringType),
	Integer: cel.NullableType(cel.IntType),
	Number:  cel.NullableType(cel.DoubleType),
	Boolean: cel.NullableType(cel.BoolType),
	List:    cel.ListType(cel.DynType),
	Object:  cel.MapType(cel.StringType, cel.DynType),
	Any:     cel.DynType,
}

// variable is the variable for names of a type. No expression can write it.
func variable(t Type) string { return "@" + string(t) }

// activation has the values of the names that an expression reads, for each variable of the environment.
type activation struct {
	values any            // as CEL reads them
	named  map[string]any // the same by the names
	work   *Work          // of Values
}

func (a activation) ResolveName(name string) (any, bool) {
	if name == "" || name[0] != '@' || celTypes[Type(name[1:])] == nil {
		return nil, false
	}
	return a.values, true
}

func (activation) Parent() interpreter.Activation { return nil }

// activate reads the named values.
func activate(names map[name]Type, v Values) (activation, error) {
	values := make(map[string]any, len(names))
	for n, typ := range names {
		if n.field == "output" {
			v.Work.add(uint64(len(v.Steps[n.member].Output) / charactersPerUnit))
		}
		val := value(n.of(v))
		if i, whole := val.(types.Int); whole && typ == Number { // so that / does not cut the fraction
			val = types.Double(i)
		}
		if err, failed := val.(*types.Err); failed {
			return activation{}, err
		}
		values[n.String()] = val
	}
	return activation{types.NewStringInterfaceMap(types.DefaultTypeAdapter, values), values, v.Work}, nil
}
