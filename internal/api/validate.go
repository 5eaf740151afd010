package api

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/dts-sched/dts/internal/edge"
	"github.com/dts-sched/dts/internal/task"
)

// validator checks the requests of one operation against the document. What the document cannot say (limits
// in bytes, what excludes what) is checked by package task.
type validator struct {
	parameters openapi3.Parameters
	body       *openapi3.Schema   // nil: the operation takes none
	bodyless   bool               // it may be left out, which is the same as an empty object
	lenient    []jsontext.Options // for a body whose parts are checked one by one later
	goesOn     bool               // the use case tells what is wrong beside values that do not fit: see faultsOf
	turns      decoding
}

// decodingLimit is how many large bodies are decoded at once. Names of members take up to 20 times their size while
// they are compared, so that each is there once.
const decodingLimit = 4

// largeBody is the size in bytes from which on a body waits for its turn.
const largeBody = 64 << 10

// decoding has the turns of large bodies.
type decoding chan struct{}

// check is checkBody, for which a large body waits for its turn. Errors: CodeInvalid, and that of ctx.
func (d decoding) check(
	ctx context.Context, schema *openapi3.Schema, raw []byte, lenient ...jsontext.Options,
) error {
	if len(raw) > largeBody {
		select {
		case d <- struct{}{}:
			defer func() { <-d }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return checkBody(schema, raw, lenient...)
}

// jsonType is the media type of bodies.
const jsonType = "application/json"

// byteOrderMark is what some editors put in front of UTF-8; RFC 8259 allows readers of JSON to pass over it.
const byteOrderMark = "\ufeff"

// Where a handler finds the body that was checked, and what of it does not fit the document.
const (
	bodyKey   = "body"
	faultsKey = "faults"
)

// faultsOf are the values of a body that do not fit the document, of an operation that goes on with them. The handler
// refuses the request with them, and with all else that is wrong.
func faultsOf(c echo.Context) error {
	err, _ := c.Get(faultsKey).(error)
	return err
}

func (v validator) check(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := v.checkParameters(c); err != nil {
			return err
		}
		if v.body != nil {
			raw, _ := c.Get(bodyKey).([]byte)
			err := v.turns.check(c.Request().Context(), v.body, raw, v.lenient...)
			var wrong misfit
			if v.goesOn && errors.As(err, &wrong) && wrong.readable {
				c.Set(faultsKey, err)
			} else if err != nil {
				return err
			}
		}
		return next(c)
	}
}

func (v validator) checkParameters(c echo.Context) error {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return task.Errorf(task.CodeInvalid, "the query cannot be read: %v", err)
	}
	for name, values := range query {
		p := v.parameters.GetByInAndName(openapi3.ParameterInQuery, name)
		if p == nil {
			return task.Invalid(name, "is not a parameter of this call%s", v.known())
		}
		if len(values) > 1 && (p.Explode == nil || !*p.Explode) {
			return task.Invalid(name, "is given %d times", len(values))
		}
	}
	input := &openapi3filter.RequestValidationInput{
		Request: c.Request(), PathParams: pathParameters(c), QueryParams: query,
		Options: &openapi3filter.Options{SkipSettingDefaults: true},
	}
	for _, p := range v.parameters {
		if err := openapi3filter.ValidateParameter(c.Request().Context(), input, p.Value); err != nil {
			return mismatch(p.Value.Name, err)
		}
	}
	return nil
}

// known says which parameters a query may have.
func (v validator) known() string {
	var names []string
	for _, p := range v.parameters {
		if p.Value.In == openapi3.ParameterInQuery {
			names = append(names, p.Value.Name)
		}
	}
	if len(names) == 0 {
		return ", which has none"
	}
	return ", which has " + strings.Join(names, ", ")
}

// pathParameters are the unescaped ones. Echo escapes nothing itself: it routes by the raw path where the
// client escaped more than it had to.
func pathParameters(c echo.Context) map[string]string {
	values := map[string]string{}
	for _, name := range c.ParamNames() {
		values[name] = c.Param(name)
		if unescaped, err := url.PathUnescape(c.Param(name)); err == nil && c.Request().URL.RawPath != "" {
			values[name] = unescaped
		}
	}
	return values
}

// receive reads the body, if the operation takes one, and puts it where the handler finds it. The caller calls release when the request
// has been answered. Errors are those of edge.Server.Receive, and CodeUnsupportedMediaType.
func (v validator) receive(s *edge.Server, c echo.Context) (release func(), _ error) {
	if v.body == nil {
		return func() {}, nil
	}
	if v.bodyless && c.Request().ContentLength == 0 {
		c.Set(bodyKey, []byte("{}"))
		return func() {}, nil
	}
	if err := plainJSON(c); err != nil {
		return nil, err
	}
	raw, release, err := s.Receive(c)
	if err != nil {
		return nil, err
	}
	raw = bytes.TrimPrefix(raw, []byte(byteOrderMark))
	if len(bytes.TrimSpace(raw)) == 0 {
		release()
		return nil, task.Errorf(task.CodeInvalid, "a body is required")
	}
	c.Set(bodyKey, raw)
	return release, nil
}

func plainJSON(c echo.Context) error {
	header := c.Request().Header
	media, parameters, err := mime.ParseMediaType(header.Get(echo.HeaderContentType))
	charset := strings.ToLower(parameters["charset"])
	switch {
	case err != nil || media != jsonType:
		return task.Errorf(edge.CodeUnsupportedMediaType, "the Content-Type must be %s", jsonType)
	case charset != "" && charset != "utf-8":
		return task.Errorf(edge.CodeUnsupportedMediaType, "the body must be UTF-8")
	case header.Get(echo.HeaderContentEncoding) != "":
		return task.Errorf(edge.CodeUnsupportedMediaType, "the body must not be encoded")
	}
	return nil
}

// checkBody compares a body with its schema.
func checkBody(schema *openapi3.Schema, raw []byte, lenient ...jsontext.Options) error {
	value, err := parseJSON(schema, raw, lenient...)
	if err != nil {
		return err
	}
	if err := schema.VisitJSON(value, openapi3.VisitAsRequest()); err != nil {
		return mismatches(schema, value, len(raw), err)
	}
	return nil
}
