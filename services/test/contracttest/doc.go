// Package contracttest checks the running APIs against their OpenAPI documents. A
// test puts [Transport] under its HTTP client. Then every answer is checked, whatever
// the test is about: the document has its status for the operation, the headers are
// there and fit their schemas, the content type and the body are the documented ones,
// and a body that the API accepted is one that the document allows. [Seen] tells
// which operations and statuses were seen.
//
// santhosh-tekuri/jsonschema checks the schemas. It implements JSON Schema 2020-12,
// the dialect of OpenAPI 3.1, in full. What OpenAPI adds around the schemas is checked
// here, because no library is as strict. libopenapi-validator 0.16 takes a body
// where none is documented, and skips text bodies unless a decoder is registered for
// them. It and kin-openapi check only the operations of paths, not the answers to
// requests that match no operation. Neither refuses a compression that is not
// documented.
//
// Only tests import this package.
package contracttest
