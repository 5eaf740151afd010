// Package api serves DTS over HTTP. openapi.yaml is the source: the types in package wire, the server interface in
// api.gen.go and the client in package client are generated from it, every request is checked against it
// before a handler sees it, and the tests check every answer against it.
//
// Package edge serves it. For each operation, this package adds (operation.go): the body and the admission, the time limit, the check against the document (validate.go), and the turn of pages (answers.go); then the
// handler, which resolves who asks (caller.go), translates, asks package control, and translates back.
package api

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:embed openapi.yaml
var document []byte

// Document reads the API's description, ready to check requests with. Each call returns a document of its own.
func Document() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return doc, nil
}

// description is the API's description, which all servers of a process share. Nobody changes it.
type description struct {
	doc  *openapi3.T
	json []byte // as /openapi.json serves it
}

// describe returns the description. It is read once, as that takes longer than all else that a server does to start.
var describe = sync.OnceValues(func() (description, error) {
	doc, err := Document()
	if err != nil {
		return description{}, err
	}
	asJSON, err := json.Marshal(doc)
	if err != nil {
		return description{}, fmt.Errorf("writing openapi.json: %w", err)
	}
	return description{doc: doc, json: asJSON}, nil
})
