package memoryledger_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
)

// A receipt needs no service. VerifyOnchain also asks a Solana node.
func ExampleParseReceipt() {
	text, err := os.ReadFile("../../../docs/journey/receipt.json")
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := memoryledger.ParseReceipt(text)
	if err == nil {
		err = receipt.Verify()
	}
	fmt.Println(receipt.Entry.Content, err)
	// Output: Grüße aus Zürich ☂, signed "A." <nil>
}

// An export is read as a stream. It is proven when it ends without an error.
func ExampleReadExport() {
	file, err := os.Open("../../../events/verify/testdata/export/bad/content-altered.ndjson")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	export, err := memoryledger.ReadExport(file)
	if err != nil {
		log.Fatal(err)
	}
	for memory, err := range export.Memories() {
		if err != nil {
			fmt.Println("the text is not that of the leaf:", errors.Is(err, memoryledger.ErrWrongLeaf))
			return
		}
		fmt.Println(memory.Index, memory.Entry.Content)
	}
	// Output:
	// 0 memory 0 ☂
	// 1 memory 1 ☂
	// the text is not that of the leaf: true
}
