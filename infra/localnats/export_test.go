package localnats

import "slices"

// ReaderMay lists the requests that a reader may send, as the server sees them.
func ReaderMay(stream, admin string) []string {
	var may []string
	for subject := range readSubjects(stream, admin) {
		may = append(may, "LEDGER.API."+subject[len("$JS.API."):])
	}
	slices.Sort(may)
	return may
}
