package contracttest

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Answer is a documented status of an operation.
type Answer struct {
	Operation string // operationId; "(no route)", "(preflight)"
	Status    int
}

// Operation describes a method of a path, as documented. With the method "*" it describes
// requests that match no operation.
type Operation struct {
	ID       string
	Method   string
	Path     string // with "{name}" for a parameter
	Statuses []int  // documented, in order
	// Security lists the credentials that open the operation, each with the scopes that
	// it needs. Empty: the operation is public.
	Security map[string][]string
}

// Operations returns the operations of an API without preflights, in the order of their
// ids.
func Operations(api API) ([]Operation, error) {
	d, err := documentOf(api)
	if err != nil {
		return nil, err
	}
	var all []Operation
	for _, op := range append(slices.Clone(d.operations), d.Unmatched) {
		all = append(all, Operation{op.ID, op.method, op.template, slices.Sorted(maps.Keys(op.Responses)), op.security()})
	}
	slices.SortFunc(all, func(a, b Operation) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

type sighting struct {
	api API
	Answer
}

var seen sync.Map // of sighting to struct{}

func note(api API, op *operation, status int) {
	key := sighting{api, Answer{op.ID, status}}
	if _, ok := seen.Load(key); !ok {
		seen.Store(key, struct{}{})
	}
}

// Unseen returns the documented answers of an API that were not seen in this process.
func Unseen(api API) (missing []Answer, err error) {
	d, err := documentOf(api)
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(d.operations), d.Unmatched)
	if d.Preflight != nil {
		all = append(all, d.Preflight)
	}
	for _, op := range all {
		for status := range op.Responses {
			answer := Answer{op.ID, status}
			if _, ok := seen.Load(sighting{api, answer}); !ok {
				missing = append(missing, answer)
			}
		}
	}
	return missing, nil
}
