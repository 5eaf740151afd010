// Package expr reads and evaluates the expressions of workflows: ${{ steps.extract.output.rows * 2 }}.
//
// Expressions are written in CEL, the Common Expression Language (https://cel.dev). It has no loops without an end and
// no functions with effects, and it counts what an evaluation costs. The leader of a partition evaluates what users
// wrote, so hard bounds matter more than speed.
//
// # Templates and conditions
//
// A [Template] is JSON of any form. Each string value in it may have expressions:
//
//	"${{ params.limit }}"            nothing else in the string: the value with its type, such as 100
//	"day=${{ params.day }}.csv"      text around: the value as text
//	"$${{ params.day }}"             no expression: the text ${{ params.day }}
//
// With text around, null is an error, because "day=null" hides a mistake. Lists and objects become their JSON. Names of
// objects have no expressions. A [Condition] is one expression that is true or false; it needs no ${{ }} around.
//
// # Names
//
//	params.day                       a param of the workflow, with the type that it is declared with; null if not given
//	run.id .workflow .revision .created .started .tick .attempt
//	steps.a.state .output .error .attempt .task
//	prev.output                      the same as steps.x.output, where x is the only need
//
// params["the-day"] stands for a name that CEL cannot spell. has(params.day) is true if the param is given. No name is
// read as a whole: an expression says which field it wants, so [Template.Steps] knows which outputs must be read.
// Parsing refuses unknown names, and wrong types where they are known. Outputs, elements of lists and members of
// objects have no type before they are read, and neither have the variables of macros.
//
// # Values
//
// Numbers of JSON are integers (int) if they have no fraction and fit, whatever their notation, and doubles if not. So
// 10, 10.0 and 1e1 are the same value, and what an expression writes is read back as the same. Other than in CEL,
// numbers of both kinds may be mixed in + - * /: a price that is 3 today and 2.5 tomorrow breaks nothing. Two integers
// divide without a fraction, as in CEL: 7 / 2 is 3, and 7 / 2.0 is 3.5. A param of the type number is always a double.
// An integer of more than 64 bits becomes a double, which keeps some 16 digits of it.
//
// Moments are texts, in UTC and with milliseconds, as in all JSON of DTS: the same text stands in the payload, with
// text around or not, and run.tick.split("T")[0] is the day. timestamp(run.tick) computes with them. A timestamp that
// ends in a template becomes such a text again, and a duration a text such as "1h30m0s".
//
// # Functions
//
// The operators, conversions, macros (has, all, exists, exists_one, map, filter) and functions of CEL, but for matches
// and time zones: the work of a regular expression is not bounded by what CEL counts for it, and the rules of time
// zones differ between nodes. Beside them: text.split(separator), list.join(separator), range(n), sum(list), min(list),
// max(list).
//
// # Determinism
//
// The same values give the same bytes, on each node and at each repetition: nothing reads a clock, a random number or a
// file, objects are written and gone through in the order of their names, and a Template and a Condition never change.
// They may be shared by goroutines.
//
// # Limits
//
// The constants of this package bound the text of an expression, its work ([CostLimit]), and each list and text that it
// makes. All work is counted after a function has done it, so no single call may be long: those that walk through
// nested values measure them first, since an expression can nest a value in itself a hundred times.
//
// # Errors
//
// All errors are *task.Error with task.CodeInvalid. Field is the path of the string in the template, and the message
// begins with the place in that string: "character 5: there is no param dya; did you mean day?". Parsing reports all
// strings at fault. At the release of a step, the error of an evaluation is the reason for which the step has failed.
package expr
