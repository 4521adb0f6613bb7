// Command bundle writes the OpenAPI document that an API serves:
//
//	bundle OUTPUT SOURCE [SOURCE]
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/memory-ledger/ledger/services/httpapi/openapi"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: bundle OUTPUT SOURCE [SOURCE]")
	}
	var sources [][]byte
	for _, name := range args[1:] {
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		sources = append(sources, source)
	}
	document, err := openapi.Bundle(sources...)
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], document, 0o644)
}
