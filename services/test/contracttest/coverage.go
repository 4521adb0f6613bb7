package contracttest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Answer is a documented status of an operation.
type Answer struct {
	Operation string // operationId; "(no route)", "(preflight)"
	Status    int
}

// Operation is what an API's document says of a method of a path; or, with the
// method "*", of requests that no operation takes.
type Operation struct {
	ID       string
	Method   string
	Path     string // with "{name}" for a parameter
	Statuses []int  // documented, in order
}

// Operations returns the operations of an API, preflights aside, by their ids.
func Operations(api API) ([]Operation, error) {
	d, err := documentOf(api)
	if err != nil {
		return nil, err
	}
	var all []Operation
	for _, op := range append(slices.Clone(d.operations), d.unmatched) {
		all = append(all, Operation{op.id, op.method, op.template, slices.Sorted(maps.Keys(op.responses))})
	}
	slices.SortFunc(all, func(a, b Operation) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Coverage says which of an API's documented answers came by in this process.
type Coverage struct {
	API     API
	Seen    []Answer
	Missing []Answer
}

type sighting struct {
	api API
	Answer
}

var seen sync.Map // of sighting to struct{}

func note(api API, op *operation, status int) {
	key := sighting{api, Answer{op.id, status}}
	if _, ok := seen.Load(key); !ok {
		seen.Store(key, struct{}{})
	}
}

// Seen returns the coverage of an API so far.
func Seen(api API) (Coverage, error) {
	d, err := documentOf(api)
	if err != nil {
		return Coverage{}, err
	}
	all := append(slices.Clone(d.operations), d.unmatched)
	if d.preflight != nil {
		all = append(all, d.preflight)
	}
	coverage := Coverage{API: api}
	for _, op := range all {
		for status := range op.responses {
			answer := Answer{op.id, status}
			if _, ok := seen.Load(sighting{api, answer}); ok {
				coverage.Seen = append(coverage.Seen, answer)
			} else {
				coverage.Missing = append(coverage.Missing, answer)
			}
		}
	}
	byName := func(a, b Answer) int {
		return cmp.Or(strings.Compare(a.Operation, b.Operation), cmp.Compare(a.Status, b.Status))
	}
	slices.SortFunc(coverage.Seen, byName)
	slices.SortFunc(coverage.Missing, byName)
	return coverage, nil
}

var reporting sync.Mutex

// report writes the coverage of this test program to a folder: one file a
// program and API, which grows more complete with every test that ends.
func report(folder string, api API) error {
	reporting.Lock()
	defer reporting.Unlock()
	coverage, err := Seen(api)
	if err != nil {
		return err
	}
	name := filepath.Join(folder, filepath.Base(os.Args[0])+"."+string(api)+".txt")
	if err := os.WriteFile(name, []byte(coverage.String()), 0o644); err != nil {
		return fmt.Errorf("contracttest: report coverage: %w", err)
	}
	return nil
}

// String is a line for each operation: what was seen, and what is missing.
func (c Coverage) String() string {
	type line struct{ seen, missing []string }
	lines := make(map[string]*line)
	at := func(operation string) *line {
		if lines[operation] == nil {
			lines[operation] = &line{}
		}
		return lines[operation]
	}
	for _, a := range c.Seen {
		at(a.Operation).seen = append(at(a.Operation).seen, fmt.Sprint(a.Status))
	}
	for _, a := range c.Missing {
		at(a.Operation).missing = append(at(a.Operation).missing, fmt.Sprint(a.Status))
	}
	var operations []string
	for operation := range lines {
		operations = append(operations, operation)
	}
	slices.Sort(operations)
	var b strings.Builder
	fmt.Fprintf(&b, "%s API: %d of %d documented answers seen\n", c.API, len(c.Seen), len(c.Seen)+len(c.Missing))
	for _, operation := range operations {
		l := lines[operation]
		fmt.Fprintf(&b, "  %-20s seen %-28s not seen %s\n", operation, strings.Join(l.seen, " "), strings.Join(l.missing, " "))
	}
	return b.String()
}
